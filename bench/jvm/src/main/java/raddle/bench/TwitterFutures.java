package raddle.bench;

import com.twitter.util.Await;
import com.twitter.util.Future;
import com.twitter.util.Promise;
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
import scala.Function0;
import scala.Function1;
import scala.runtime.BoxedUnit;

/**
 * Twitter's futures.
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
public class TwitterFutures {
  private static final String STRING = "s";
  private static final RuntimeException EXCEPTION = new RuntimeException();
  private static final Future<String> CONST = Future.value(STRING);
  private static final Future<Void> CONST_VOID = Future.value(null);
  private static final Function1<String, String> MAP = s -> STRING;
  private static final Function1<String, Future<String>> FLAT_MAP = s -> CONST;
  private static final Function0<BoxedUnit> ENSURE = () -> BoxedUnit.UNIT;

  /** Satisfied, but no constant to the compiler. */
  private Future<String> satisfied = CONST;

  @Benchmark
  public Promise<String> newPromise() {
    return new Promise<String>();
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
  public String mapConst() throws Exception {
    return Await.result(CONST.map(MAP));
  }

  @Benchmark
  public String mapConstN() throws Exception {
    Future<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.map(MAP);
    return Await.result(f);
  }

  @Benchmark
  public Future<String> createMap() {
    Promise<String> p = new Promise<String>();
    return p.map(MAP);
  }

  @Benchmark
  public Future<String> createMapSet() {
    Promise<String> p = new Promise<String>();
    Future<String> f = p.map(MAP);
    p.setValue(STRING);
    return f;
  }

  @Benchmark
  public String createMapSetTake() throws Exception {
    return mapPromise();
  }

  @Benchmark
  public String mapPromise() throws Exception {
    Promise<String> p = new Promise<String>();
    Future<String> f = p.map(MAP);
    p.setValue(STRING);
    return Await.result(f);
  }

  @Benchmark
  public String mapPromiseN() throws Exception {
    Promise<String> p = new Promise<String>();
    Future<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.map(MAP);
    p.setValue(STRING);
    return Await.result(f);
  }

  @Benchmark
  public String flatMapConst() throws Exception {
    return Await.result(CONST.flatMap(FLAT_MAP));
  }

  @Benchmark
  public String flatMapConstN() throws Exception {
    Future<String> f = CONST;
    for (int i = 0; i < N.N; i++) f = f.flatMap(FLAT_MAP);
    return Await.result(f);
  }

  @Benchmark
  public String flatMapPromise() throws Exception {
    Promise<String> p = new Promise<String>();
    Future<String> f = p.flatMap(FLAT_MAP);
    p.setValue(STRING);
    return Await.result(f);
  }

  @Benchmark
  public String flatMapPromiseN() throws Exception {
    Promise<String> p = new Promise<String>();
    Future<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.flatMap(FLAT_MAP);
    p.setValue(STRING);
    return Await.result(f);
  }

  @Benchmark
  public Void ensureConst() throws Exception {
    return Await.result(CONST_VOID.ensure(ENSURE));
  }

  @Benchmark
  public Void ensureConstN() throws Exception {
    Future<Void> f = CONST_VOID;
    for (int i = 0; i < N.N; i++) f = f.ensure(ENSURE);
    return Await.result(f);
  }

  @Benchmark
  public Void ensurePromise() throws Exception {
    Promise<Void> p = new Promise<Void>();
    Future<Void> f = p.ensure(ENSURE);
    p.setValue(null);
    return Await.result(f);
  }

  @Benchmark
  public Void ensurePromiseN() throws Exception {
    Promise<Void> p = new Promise<Void>();
    Future<Void> f = p;
    for (int i = 0; i < N.N; i++) f = f.ensure(ENSURE);
    p.setValue(null);
    return Await.result(f);
  }

  @Benchmark
  public String setValue() throws Exception {
    Promise<String> p = new Promise<String>();
    p.setValue(STRING);
    return Await.result(p);
  }

  @Benchmark
  public String setValueN() throws Exception {
    Promise<String> p = new Promise<String>();
    Future<String> f = p;
    for (int i = 0; i < N.N; i++) f = f.map(MAP);
    p.setValue(STRING);
    return Await.result(f);
  }

  private Future<Integer> loop(int i) {
    return i > 0 ? Future.value(i - 1).flatMap(j -> loop((Integer) j)) : Future.value(0);
  }

  @Benchmark
  public Integer recursiveConst() throws Exception {
    return Await.result(loop(N.N));
  }
}
