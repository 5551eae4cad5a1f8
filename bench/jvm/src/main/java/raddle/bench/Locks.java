package raddle.bench;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.CompilerControl;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Monitors and {@link ReentrantLock} without contention: one pair of lock and unlock round an
 * addition, and so many pairs within each other, each level a call: inlined, the compiler takes one
 * lock for all.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
public class Locks {
  /** Shared, though one thread uses it: what escapes cannot be optimised away. */
  @State(Scope.Benchmark)
  public static class Guarded {
    final ReentrantLock lock = new ReentrantLock();
    long count;
  }

  /** How many levels deep the lock is taken. */
  @State(Scope.Benchmark)
  public static class Depth {
    @Param({"2", "4", "8"})
    public int depth;
  }

  @Benchmark
  public void monitor(Guarded guarded) {
    synchronized (guarded) {
      guarded.count++;
    }
  }

  @Benchmark
  public void reentrantLock(Guarded guarded) {
    guarded.lock.lock();
    try {
      guarded.count++;
    } finally {
      guarded.lock.unlock();
    }
  }

  @Benchmark
  public void monitorNested(Guarded guarded, Depth depth) {
    nestedMonitor(guarded, depth.depth);
  }

  @Benchmark
  public void reentrantLockNested(Guarded guarded, Depth depth) {
    nestedLock(guarded, depth.depth);
  }

  @CompilerControl(CompilerControl.Mode.DONT_INLINE)
  private static void nestedMonitor(Guarded guarded, int depth) {
    synchronized (guarded) {
      if (depth == 1) guarded.count++;
      else nestedMonitor(guarded, depth - 1);
    }
  }

  @CompilerControl(CompilerControl.Mode.DONT_INLINE)
  private static void nestedLock(Guarded guarded, int depth) {
    guarded.lock.lock();
    try {
      if (depth == 1) guarded.count++;
      else nestedLock(guarded, depth - 1);
    } finally {
      guarded.lock.unlock();
    }
  }
}
