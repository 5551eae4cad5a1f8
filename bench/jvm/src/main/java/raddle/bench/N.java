package raddle.bench;

/** How many links the chains of the benchmarks named {@code ..N} have. */
final class N {
  static final int N = 100;

  private N() {}
}
