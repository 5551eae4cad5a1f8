package raddle.bench;

import io.trane.future.CheckedFutureException;
import io.trane.future.Future;
import io.trane.future.Promise;
import io.trane.future.Tailrec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Trane's futures.
 *
 * <p>What each benchmark does is what the one of the same name does in the module {@code
 * future-benchmark} of github.com/traneio/future.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@State(Scope.Thread)
public class TraneFutures {
  private static final String STRING = "s";
  private static final RuntimeException EXCEPTION = new RuntimeException();
  private static final Future<String> CONST = Future.value(STRING);
  private static final Future<Void> CONST_VOID = Future.VOID;
  private static final Function<String, String> MAP = s -> STRING;
  private static final Function<String, Future<String>> FLAT_MAP = s -> CONST;
  private static final Runnable ENSURE = () -> {};
  private static final Duration FOREVER = Duration.ofMillis(Long.MAX_VALUE);

  /** Satisfied, but no constant to the compiler. */
  private Future<String> satisfied = CONST;

  /** Known to others, and not constant. */
  private RuntimeException shared = new RuntimeException();

  @Benchmark
  public Promise<String> newPromise() {
    return Promise.<String>apply();
  }

  @Benchmark
  public Future<String> value() {
    return Future.value(STRING);
  }

  @Benchmark
  public Future<String> exception() {
    return Future.exception(EXCEPTION);
  }

  @Benchmark
  public Future<String> exceptionShared() {
    return Future.exception(shared);
  }

  @Benchmark
  public Future<String> mapSatisfied() {
    return satisfied.map(MAP);
  }

  @Benchmark
  public String mapConst() throws CheckedFutureException {
    return CONST.map(MAP).get(FOREVER);
  }

  @Benchmark
  public String mapConstN() throws CheckedFutureException {
    Future<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.map(MAP);
    return f.get(FOREVER);
  }

  @Benchmark
  public Future<String> createMap() {
    Promise<String> p = Promise.<String>apply();
    return p.map(MAP);
  }

  @Benchmark
  public Future<String> createMapSet() {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.map(MAP);
    p.setValue(STRING);
    return f;
  }

  @Benchmark
  public String createMapSetTake() throws CheckedFutureException {
    return mapPromise();
  }

  @Benchmark
  public String mapPromise() throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.map(MAP);
    p.setValue(STRING);
    return f.get(FOREVER);
  }

  @Benchmark
  public String mapPromiseN() throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.map(MAP);
    p.setValue(STRING);
    return f.get(FOREVER);
  }

  private static String links(int count) throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p;
    for (int i = 0; i < count; i++) f = f.map(MAP);
    p.setValue(STRING);
    return f.get(FOREVER);
  }

  @Benchmark
  public String mapPromise10() throws CheckedFutureException {
    return links(10);
  }

  @Benchmark
  public String mapPromise300() throws CheckedFutureException {
    return links(300);
  }

  @Benchmark
  public String mapPromise1000() throws CheckedFutureException {
    return links(1_000);
  }

  @Benchmark
  public String mapPromise10000() throws CheckedFutureException {
    return links(10_000);
  }

  private static final int ALIVE = 100_000;
  private static final int MOVED = 1_000;

  private static List<Future<String>> mapped(List<Promise<String>> promises, int count) {
    List<Future<String>> futures = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      Promise<String> p = Promise.<String>apply();
      promises.add(p);
      futures.add(p.map(MAP));
    }
    return futures;
  }

  private static int take(List<Future<String>> futures) throws CheckedFutureException {
    int taken = 0;
    for (Future<String> f : futures) taken += f.get(FOREVER).length();
    return taken;
  }

  @Benchmark
  public int aliveAtOnce() throws CheckedFutureException {
    List<Promise<String>> promises = new ArrayList<>(ALIVE);
    List<Future<String>> futures = mapped(promises, ALIVE);
    for (Promise<String> p : promises) p.setValue(STRING);
    return take(futures);
  }

  /** A thread that sets promises. */
  @State(Scope.Thread)
  public static class Setter {
    private final BlockingQueue<List<Promise<String>>> promises = new ArrayBlockingQueue<>(1);
    private final BlockingQueue<Boolean> set = new ArrayBlockingQueue<>(1);

    @Setup
    public void start() {
      Thread thread =
          new Thread(
              () -> {
                try {
                  while (true) {
                    for (Promise<String> p : promises.take()) p.setValue(STRING);
                    set.put(true);
                  }
                } catch (InterruptedException e) {
                  // It ends with the program.
                }
              });
      thread.setDaemon(true);
      thread.start();
    }
  }

  @Benchmark
  public int setElsewhere(Setter setter) throws CheckedFutureException, InterruptedException {
    List<Promise<String>> promises = new ArrayList<>(MOVED);
    List<Future<String>> futures = mapped(promises, MOVED);
    setter.promises.put(promises);
    setter.set.take();
    return take(futures);
  }

  @Benchmark
  public String flatMapConst() throws CheckedFutureException {
    return CONST.flatMap(FLAT_MAP).get(FOREVER);
  }

  @Benchmark
  public String flatMapConstN() throws CheckedFutureException {
    Future<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.flatMap(FLAT_MAP);
    return f.get(FOREVER);
  }

  @Benchmark
  public String flatMapPromise() throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.flatMap(FLAT_MAP);
    p.setValue(STRING);
    return f.get(FOREVER);
  }

  @Benchmark
  public String flatMapPromiseN() throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.flatMap(FLAT_MAP);
    p.setValue(STRING);
    return f.get(FOREVER);
  }

  @Benchmark
  public Void ensureConst() throws CheckedFutureException {
    return CONST_VOID.ensure(ENSURE).get(FOREVER);
  }

  @Benchmark
  public Void ensureConstN() throws CheckedFutureException {
    Future<Void> f = CONST_VOID;
    for (int i = 0; i < N.N; i++) f = f.ensure(ENSURE);
    return f.get(FOREVER);
  }

  @Benchmark
  public Void ensurePromise() throws CheckedFutureException {
    Promise<Void> p = Promise.<Void>apply();
    Future<Void> f = p.ensure(ENSURE);
    p.setValue(null);
    return f.get(FOREVER);
  }

  @Benchmark
  public Void ensurePromiseN() throws CheckedFutureException {
    Promise<Void> p = Promise.<Void>apply();
    Future<Void> f = p;
    for (int i = 0; i < N.N; i++) f = f.ensure(ENSURE);
    p.setValue(null);
    return f.get(FOREVER);
  }

  @Benchmark
  public String setValue() throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    p.setValue(STRING);
    return p.get(FOREVER);
  }

  @Benchmark
  public String setValueN() throws CheckedFutureException {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.map(MAP);
    p.setValue(STRING);
    return f.get(FOREVER);
  }

  private Future<Integer> loop(int i) {
    return Tailrec.apply(
        () -> i > 0 ? Future.value(i - 1).flatMap(this::loop) : Future.value(0));
  }

  @Benchmark
  public Integer recursiveConst() throws CheckedFutureException {
    return loop(N.N).get(FOREVER);
  }
}
