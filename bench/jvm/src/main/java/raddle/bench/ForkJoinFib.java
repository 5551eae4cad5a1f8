package raddle.bench;

import java.util.concurrent.CountedCompleter;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RecursiveTask;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * The exponential recursion without a cut-off, each call a task of a {@link ForkJoinPool}: time per
 * call, with no {@link ScopedValue}, with one bound and not used, and with one that the leaves read.
 *
 * <p>Tasks of the JDK's pool inherit no bindings. So {@code ..Bound} and {@code ..Read} do what a
 * program has to do for it: each forked task takes its parent's binding along and runs within it.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms256m", "-Xmx256m", "-XX:+AlwaysPreTouch"})
@Warmup(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 5, time = 200, timeUnit = TimeUnit.MILLISECONDS)
@State(Scope.Benchmark)
public class ForkJoinFib {
  private static final int DEPTH = 24;

  /** fib(24) with every leaf counted as its number. */
  private static final long RESULT = 46_368;

  /** How often fib(24) calls itself, the first call included. */
  private static final int CALLS = 150_049;

  private static final ScopedValue<Long> KEY = ScopedValue.newInstance();

  @Param("1")
  public int parallelism;

  private ForkJoinPool pool;

  @Setup(Level.Trial)
  public void start() {
    pool = new ForkJoinPool(parallelism);
  }

  @TearDown(Level.Trial)
  public void stop() {
    pool.close();
  }

  private static long checked(long result) {
    if (result != RESULT) throw new AssertionError("fib(" + DEPTH + ") = " + result);
    return result;
  }

  @Benchmark
  @OperationsPerInvocation(CALLS)
  public long recursiveTask() {
    return checked(pool.invoke(new Fib(DEPTH)));
  }

  @Benchmark
  @OperationsPerInvocation(CALLS)
  public long recursiveTaskBound() {
    return checked(pool.invoke(new BoundFib(DEPTH, ScopedValue.where(KEY, 1L), false)));
  }

  @Benchmark
  @OperationsPerInvocation(CALLS)
  public long recursiveTaskRead() {
    return checked(pool.invoke(new BoundFib(DEPTH, ScopedValue.where(KEY, 1L), true)));
  }

  @Benchmark
  @OperationsPerInvocation(CALLS)
  public long countedCompleter() {
    return checked(run(new Counted(null, DEPTH)));
  }

  @Benchmark
  @OperationsPerInvocation(CALLS)
  public long countedCompleterBound() {
    return checked(run(new BoundCounted(null, DEPTH, ScopedValue.where(KEY, 1L), false)));
  }

  @Benchmark
  @OperationsPerInvocation(CALLS)
  public long countedCompleterRead() {
    return checked(run(new BoundCounted(null, DEPTH, ScopedValue.where(KEY, 1L), true)));
  }

  private long run(Counted root) {
    pool.invoke(root);
    return root.sum;
  }

  @SuppressWarnings("serial")
  private static final class Fib extends RecursiveTask<Long> {
    private final int n;

    Fib(int n) {
      this.n = n;
    }

    @Override
    protected Long compute() {
      return fib(n);
    }

    private static long fib(int n) {
      if (n < 2) return n;
      Fib forked = new Fib(n - 2);
      forked.fork();
      long here = fib(n - 1);
      return here + forked.join();
    }
  }

  @SuppressWarnings("serial")
  private static final class BoundFib extends RecursiveTask<Long> {
    private final int n;
    private final ScopedValue.Carrier bindings;
    private final boolean read;

    BoundFib(int n, ScopedValue.Carrier bindings, boolean read) {
      this.n = n;
      this.bindings = bindings;
      this.read = read;
    }

    @Override
    protected Long compute() {
      return bindings.call(() -> fib(n));
    }

    private long fib(int n) {
      if (n < 2) return read ? n * KEY.get() : n;
      BoundFib forked = new BoundFib(n - 2, bindings, read);
      forked.fork();
      long here = fib(n - 1);
      return here + forked.join();
    }
  }

  /** Forks one half and goes on with the other; whoever ends last adds both up. */
  @SuppressWarnings("serial")
  private static class Counted extends CountedCompleter<Void> {
    final int n;
    long sum;
    private Counted left;
    private Counted right;

    Counted(Counted parent, int n) {
      super(parent);
      this.n = n;
    }

    Counted child(int n) {
      return new Counted(this, n);
    }

    long leaf(int n) {
      return n;
    }

    @Override
    public void compute() {
      descend();
    }

    final void descend() {
      Counted task = this;
      while (task.n >= 2) {
        task.setPendingCount(1);
        task.right = task.child(task.n - 2);
        task.left = task.child(task.n - 1);
        task.right.fork();
        task = task.left;
      }
      task.sum = task.leaf(task.n);
      task.tryComplete();
    }

    @Override
    public void onCompletion(CountedCompleter<?> caller) {
      if (left != null) sum = left.sum + right.sum;
    }
  }

  @SuppressWarnings("serial")
  private static final class BoundCounted extends Counted {
    private final ScopedValue.Carrier bindings;
    private final boolean read;

    BoundCounted(Counted parent, int n, ScopedValue.Carrier bindings, boolean read) {
      super(parent, n);
      this.bindings = bindings;
      this.read = read;
    }

    @Override
    Counted child(int n) {
      return new BoundCounted(this, n, bindings, read);
    }

    @Override
    long leaf(int n) {
      return read ? n * KEY.get() : n;
    }

    @Override
    public void compute() {
      bindings.run(this::descend);
    }
  }
}
