package raddle.bench;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Threads;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.infra.Blackhole;

/**
 * Monitors and {@link ReentrantLock}, barging and fair, under contention: pairs per microsecond of
 * all threads together, with so long a section within the lock and nothing outside.
 */
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 3, time = 300, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 300, timeUnit = TimeUnit.MILLISECONDS)
@State(Scope.Benchmark)
public class ContendedLocks {
  @Param({"0", "100", "2000"})
  public int sectionNanos;

  private final ReentrantLock lock = new ReentrantLock();
  private final ReentrantLock fair = new ReentrantLock(true);
  private long tokens;

  private long count;

  @Setup(Level.Trial)
  public void calibrate() {
    tokens = sectionNanos == 0 ? 0 : tokensFor(sectionNanos);
  }

  /** How many tokens keep a thread busy for so long: the best of some tries, one thread running. */
  private static long tokensFor(int nanos) {
    long per = 1_000_000;
    double best = Double.MAX_VALUE;
    for (int i = 0; i < 20; i++) {
      long start = System.nanoTime();
      Blackhole.consumeCPU(per);
      best = Math.min(best, (double) (System.nanoTime() - start) / per);
    }
    return Math.max(1, Math.round(nanos / best));
  }

  private void section() {
    count++;
    if (tokens != 0) Blackhole.consumeCPU(tokens);
  }

  private void monitor() {
    synchronized (this) {
      section();
    }
  }

  private void lock(ReentrantLock lock) {
    lock.lock();
    try {
      section();
    } finally {
      lock.unlock();
    }
  }

  @Benchmark
  @Threads(2)
  public void monitor2() {
    monitor();
  }

  @Benchmark
  @Threads(4)
  public void monitor4() {
    monitor();
  }

  @Benchmark
  @Threads(8)
  public void monitor8() {
    monitor();
  }

  @Benchmark
  @Threads(16)
  public void monitor16() {
    monitor();
  }

  @Benchmark
  @Threads(2)
  public void reentrantLock2() {
    lock(lock);
  }

  @Benchmark
  @Threads(4)
  public void reentrantLock4() {
    lock(lock);
  }

  @Benchmark
  @Threads(8)
  public void reentrantLock8() {
    lock(lock);
  }

  @Benchmark
  @Threads(16)
  public void reentrantLock16() {
    lock(lock);
  }

  @Benchmark
  @Threads(2)
  public void fairLock2() {
    lock(fair);
  }

  @Benchmark
  @Threads(4)
  public void fairLock4() {
    lock(fair);
  }

  @Benchmark
  @Threads(8)
  public void fairLock8() {
    lock(fair);
  }

  @Benchmark
  @Threads(16)
  public void fairLock16() {
    lock(fair);
  }
}
