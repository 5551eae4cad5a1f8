package raddle.bench;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.CompilerControl;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.infra.Blackhole;

/**
 * {@link ScopedValue}: binding one, and reading one by itself or below others.
 *
 * <p>A binding lasts as long as a call, so each call reads {@link #READS} times, and the bindings
 * share their cost among these reads. Each read is a call that is not inlined, because within one
 * method the compiler reads a value once for all; {@link #call} is what the call alone costs.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class ScopedValues {
  private static final int READS = 64 * 1024;
  private static final int DEPTH = 64;
  private static final String VALUE = "v";
  private static final ScopedValue<String> UNBOUND = ScopedValue.newInstance();

  /** The first is the one that is read; the others are bound below it. */
  private static final ScopedValue<String>[] KEYS = keys();

  private static final ScopedValue<String> KEY = KEYS[0];

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static ScopedValue<String>[] keys() {
    ScopedValue<String>[] keys = new ScopedValue[DEPTH];
    for (int i = 0; i < DEPTH; i++) keys[i] = ScopedValue.newInstance();
    return keys;
  }

  /** Runs something with so many values bound, each in a call of its own, {@link #KEY} first. */
  private static void bound(int bindings, Runnable run) {
    nested(0, bindings, run);
  }

  private static void nested(int from, int to, Runnable run) {
    if (from == to) run.run();
    else ScopedValue.where(KEYS[from], VALUE).run(() -> nested(from + 1, to, run));
  }

  private static void reads(Blackhole hole) {
    for (int i = 0; i < READS; i++) hole.consume(read(KEY));
  }

  private static void misses(Blackhole hole) {
    for (int i = 0; i < READS; i++) hole.consume(readOrElse(UNBOUND));
  }

  @CompilerControl(CompilerControl.Mode.DONT_INLINE)
  private static String read(ScopedValue<String> key) {
    return key.get();
  }

  @CompilerControl(CompilerControl.Mode.DONT_INLINE)
  private static String readOrElse(ScopedValue<String> key) {
    return key.orElse(VALUE);
  }

  @CompilerControl(CompilerControl.Mode.DONT_INLINE)
  private static String readNothing(ScopedValue<String> key) {
    return VALUE;
  }

  @Benchmark
  @OperationsPerInvocation(READS)
  public void call(Blackhole hole) {
    for (int i = 0; i < READS; i++) hole.consume(readNothing(KEY));
  }

  @Benchmark
  public String bindGet() {
    return ScopedValue.where(KEY, VALUE).call(KEY::get);
  }

  @Benchmark
  @OperationsPerInvocation(READS)
  public void getDepth1(Blackhole hole) {
    bound(1, () -> reads(hole));
  }

  @Benchmark
  @OperationsPerInvocation(READS)
  public void getDepth8(Blackhole hole) {
    bound(8, () -> reads(hole));
  }

  @Benchmark
  @OperationsPerInvocation(READS)
  public void getDepth64(Blackhole hole) {
    bound(64, () -> reads(hole));
  }

  /** All 64 values in turn: more than the cache of a thread holds. */
  @Benchmark
  @OperationsPerInvocation(READS)
  public void getEachOf64(Blackhole hole) {
    bound(
        64,
        () -> {
          for (int i = 0; i < READS; i++) hole.consume(read(KEYS[i % DEPTH]));
        });
  }

  /** A value that is not bound, below one that is. */
  @Benchmark
  @OperationsPerInvocation(READS)
  public void missDepth1(Blackhole hole) {
    bound(1, () -> misses(hole));
  }

  @Benchmark
  @OperationsPerInvocation(READS)
  public void missDepth64(Blackhole hole) {
    bound(64, () -> misses(hole));
  }
}
