package raddle.bench;

import io.trane.future.CheckedFutureException;
import io.trane.future.Future;
import io.trane.future.Promise;
import io.trane.future.Tailrec;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
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
