/**
 * Does `work` for each item, at most `limit` at a time, in order of the list. After the first failure no
 * further item is begun, and it throws that failure once those under way have ended.
 */
export async function atMost<T, R>(
  limit: number,
  items: readonly T[],
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const done: R[] = [];
  let next = 0;
  let failure: { error: unknown } | undefined;
  async function run(): Promise<void> {
    while (next < items.length && failure === undefined) {
      const index = next++;
      try {
        done[index] = await work(items[index] as T);
      } catch (error) {
        failure ??= { error };
      }
    }
  }
  await Promise.all(Array.from({ length: limit }, run));
  if (failure !== undefined) throw failure.error;
  return done;
}
