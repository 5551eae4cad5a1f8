package raddle.bench;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
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
 * The JDK's {@link CompletableFuture}, without executors.
 *
 * <p>What each benchmark does is what the one of the same name does in the module {@code
 * future-benchmark} of github.com/traneio/future. But {@code exception} makes a failed future and
 * starts no task, {@code ensure} is {@code whenComplete}, which runs after failures too, and {@code
 * flatMapPromise} takes the result of the derived future.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@State(Scope.Thread)
public class JdkFutures {
  private static final String STRING = "s";
  private static final RuntimeException EXCEPTION = new RuntimeException();
  private static final CompletableFuture<String> CONST = CompletableFuture.completedFuture(STRING);
  private static final CompletableFuture<Void> CONST_VOID =
      CompletableFuture.completedFuture(null);
  private static final Function<String, String> MAP = s -> STRING;
  private static final Function<String, CompletableFuture<String>> FLAT_MAP = s -> CONST;
  private static final BiConsumer<Void, Throwable> ENSURE = (v, e) -> {};

  /** Satisfied, but no constant to the compiler. */
  private CompletableFuture<String> satisfied = CONST;

  @Benchmark
  public CompletableFuture<String> newPromise() {
    return new CompletableFuture<String>();
  }

  @Benchmark
  public CompletableFuture<String> value() {
    return CompletableFuture.completedFuture(STRING);
  }

  @Benchmark
  public CompletableFuture<String> exception() {
    return CompletableFuture.failedFuture(EXCEPTION);
  }

  @Benchmark
  public CompletableFuture<String> mapSatisfied() {
    return satisfied.thenApply(MAP);
  }

  @Benchmark
  public String mapConst() throws InterruptedException, ExecutionException {
    return CONST.thenApply(MAP).get();
  }

  @Benchmark
  public String mapConstN() throws InterruptedException, ExecutionException {
    CompletableFuture<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.thenApply(MAP);
    return f.get();
  }

  @Benchmark
  public CompletableFuture<String> createMap() {
    CompletableFuture<String> p = new CompletableFuture<String>();
    return p.thenApply(MAP);
  }

  @Benchmark
  public CompletableFuture<String> createMapSet() {
    CompletableFuture<String> p = new CompletableFuture<String>();
    CompletableFuture<String> f = p.thenApply(MAP);
    p.complete(STRING);
    return f;
  }

  @Benchmark
  public String createMapSetTake() throws InterruptedException, ExecutionException {
    return mapPromise();
  }

  @Benchmark
  public String mapPromise() throws InterruptedException, ExecutionException {
    CompletableFuture<String> p = new CompletableFuture<String>();
    CompletableFuture<String> f = p.thenApply(MAP);
    p.complete(STRING);
    return f.get();
  }

  @Benchmark
  public String mapPromiseN() throws InterruptedException, ExecutionException {
    CompletableFuture<String> p = new CompletableFuture<String>();
    CompletableFuture<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.thenApply(MAP);
    p.complete(STRING);
    return f.get();
  }

  @Benchmark
  public String flatMapConst() throws InterruptedException, ExecutionException {
    return CONST.thenCompose(FLAT_MAP).get();
  }

  @Benchmark
  public String flatMapConstN() throws InterruptedException, ExecutionException {
    CompletableFuture<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.thenCompose(FLAT_MAP);
    return f.get();
  }

  @Benchmark
  public String flatMapPromise() throws InterruptedException, ExecutionException {
    CompletableFuture<String> p = new CompletableFuture<String>();
    CompletableFuture<String> f = p.thenCompose(FLAT_MAP);
    p.complete(STRING);
    return f.get();
  }

  @Benchmark
  public String flatMapPromiseN() throws InterruptedException, ExecutionException {
    CompletableFuture<String> p = new CompletableFuture<String>();
    CompletableFuture<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.thenCompose(FLAT_MAP);
    p.complete(STRING);
    return f.get();
  }

  @Benchmark
  public Void ensureConst() throws InterruptedException, ExecutionException {
    return CONST_VOID.whenComplete(ENSURE).get();
  }

  @Benchmark
  public Void ensureConstN() throws InterruptedException, ExecutionException {
    CompletableFuture<Void> f = CONST_VOID;
    for (int i = 0; i < N.N; i++) f = f.whenComplete(ENSURE);
    return f.get();
  }

  @Benchmark
  public Void ensurePromise() throws InterruptedException, ExecutionException {
    CompletableFuture<Void> p = new CompletableFuture<Void>();
    CompletableFuture<Void> f = p.whenComplete(ENSURE);
    p.complete(null);
    return f.get();
  }

  @Benchmark
  public Void ensurePromiseN() throws InterruptedException, ExecutionException {
    CompletableFuture<Void> p = new CompletableFuture<Void>();
    CompletableFuture<Void> f = p;
    for (int i = 0; i < N.N; i++) f = f.whenComplete(ENSURE);
    p.complete(null);
    return f.get();
  }

  @Benchmark
  public String setValue() throws InterruptedException, ExecutionException {
    CompletableFuture<String> p = new CompletableFuture<String>();
    p.complete(STRING);
    return p.get();
  }

  @Benchmark
  public String setValueN() throws InterruptedException, ExecutionException {
    CompletableFuture<String> p = new CompletableFuture<String>();
    CompletableFuture<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.thenApply(MAP);
    p.complete(STRING);
    return f.get();
  }

  private CompletableFuture<Integer> loop(int i) {
    return i > 0
        ? CompletableFuture.completedFuture(i - 1).thenCompose(this::loop)
        : CompletableFuture.completedFuture(0);
  }

  @Benchmark
  public Integer recursiveConst() throws InterruptedException, ExecutionException {
    return loop(N.N).get();
  }
}
