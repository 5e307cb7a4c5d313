/** Merges two sorted sources into one; closes both when the consumer stops early or one of them fails. */
export async function* mergeSorted<T>(
  first: AsyncIterable<T>,
  second: AsyncIterable<T>,
  compare: (a: T, b: T) => number,
): AsyncGenerator<T> {
  const [one, other] = [first[Symbol.asyncIterator](), second[Symbol.asyncIterator]()];
  try {
    let [a, b] = await Promise.all([one.next(), other.next()]);
    while (!(a.done && b.done)) {
      if (b.done || (!a.done && compare(a.value, b.value) <= 0)) {
        yield a.value;
        a = await one.next();
      } else {
        yield b.value;
        b = await other.next();
      }
    }
  } finally {
    await Promise.all([one.return?.(), other.return?.()]);
  }
}
