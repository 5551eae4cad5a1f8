package raddle.bench;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;
import scala.Function1;
import scala.concurrent.Await;
import scala.concurrent.ExecutionContext;
import scala.concurrent.Future$;
import scala.concurrent.Future;
import scala.concurrent.Promise;
import scala.concurrent.duration.Duration;
import scala.util.Try;

/**
 * Scala's futures.
 *
 * <p>What each benchmark does is what the one of the same name does in the module {@code
 * future-benchmark} of github.com/traneio/future. But callbacks run on {@code
 * ExecutionContext.parasitic}, on the thread that completes the future, as those of all other
 * libraries here do, and not on a pool; and {@code ensureConstN} is a chain. Scala has no {@code
 * ensure}: it is {@code transform}, as there.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@State(Scope.Thread)
public class ScalaFutures {
  private static final String STRING = "s";
  private static final RuntimeException EXCEPTION = new RuntimeException();
  private static final ExecutionContext EC = ExecutionContext.parasitic$.MODULE$;
  private static final Future<String> CONST = Future$.MODULE$.successful(STRING);
  private static final Future<Void> CONST_VOID = Future$.MODULE$.successful(null);
  private static final Function1<String, String> MAP = s -> STRING;
  private static final Function1<String, Future<String>> FLAT_MAP = s -> CONST;
  private static final Function1<Try<Void>, Try<Void>> ENSURE = t -> t;

  /** Satisfied, but no constant to the compiler. */
  private Future<String> satisfied = CONST;

  @Benchmark
  public Promise<String> newPromise() {
    return Promise.<String>apply();
  }

  @Benchmark
  public Future<String> value() {
    return Future$.MODULE$.successful(STRING);
  }

  @Benchmark
  public Future<String> exception() {
    return Future$.MODULE$.failed(EXCEPTION);
  }

  @Benchmark
  public Future<String> mapSatisfied() {
    return satisfied.map(MAP, EC);
  }

  @Benchmark
  public String mapConst() throws Exception {
    return Await.result(CONST.map(MAP, EC), Duration.Inf());
  }

  @Benchmark
  public String mapConstN() throws Exception {
    Future<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.map(MAP, EC);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public Future<String> createMap() {
    Promise<String> p = Promise.<String>apply();
    return p.future().map(MAP, EC);
  }

  @Benchmark
  public Future<String> createMapSet() {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.future().map(MAP, EC);
    p.success(STRING);
    return f;
  }

  @Benchmark
  public String createMapSetTake() throws Exception {
    return mapPromise();
  }

  @Benchmark
  public String mapPromise() throws Exception {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.future().map(MAP, EC);
    p.success(STRING);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public String mapPromiseN() throws Exception {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.future();
    for (int i = 0; i < N.N; i++) f = f.map(MAP, EC);
    p.success(STRING);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public String flatMapConst() throws Exception {
    return Await.result(CONST.flatMap(FLAT_MAP, EC), Duration.Inf());
  }

  @Benchmark
  public String flatMapConstN() throws Exception {
    Future<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.flatMap(FLAT_MAP, EC);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public String flatMapPromise() throws Exception {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.future().flatMap(FLAT_MAP, EC);
    p.success(STRING);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public String flatMapPromiseN() throws Exception {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.future();
    for (int i = 0; i < N.N; i++) f = f.flatMap(FLAT_MAP, EC);
    p.success(STRING);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public Void ensureConst() throws Exception {
    return Await.result(CONST_VOID.transform(ENSURE, EC), Duration.Inf());
  }

  @Benchmark
  public Void ensureConstN() throws Exception {
    Future<Void> f = CONST_VOID;
    for (int i = 0; i < N.N; i++) f = f.transform(ENSURE, EC);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public Void ensurePromise() throws Exception {
    Promise<Void> p = Promise.<Void>apply();
    Future<Void> f = p.future().transform(ENSURE, EC);
    p.success(null);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public Void ensurePromiseN() throws Exception {
    Promise<Void> p = Promise.<Void>apply();
    Future<Void> f = p.future();
    for (int i = 0; i < N.N; i++) f = f.transform(ENSURE, EC);
    p.success(null);
    return Await.result(f, Duration.Inf());
  }

  @Benchmark
  public String setValue() throws Exception {
    Promise<String> p = Promise.<String>apply();
    p.success(STRING);
    return Await.result(p.future(), Duration.Inf());
  }

  @Benchmark
  public String setValueN() throws Exception {
    Promise<String> p = Promise.<String>apply();
    Future<String> f = p.future();
    for (int i = 0; i < N.N; i++) f = f.map(MAP, EC);
    p.success(STRING);
    return Await.result(f, Duration.Inf());
  }

  private Future<Integer> loop(int i) {
    return i > 0
        ? Future$.MODULE$.successful(i - 1).flatMap(this::loop, EC)
        : Future$.MODULE$.successful(0);
  }

  @Benchmark
  public Integer recursiveConst() throws Exception {
    return Await.result(loop(N.N), Duration.Inf());
  }
}
