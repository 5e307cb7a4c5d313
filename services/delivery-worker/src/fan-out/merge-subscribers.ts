import type { Subscriber } from '@carillon/store/subscriptions';

/** Streams in order of token as one, each token once. Looks at every stream's head for each: topics are few. */
export async function* mergeSubscribers(
  streams: readonly AsyncIterable<Subscriber>[],
): AsyncGenerator<Subscriber> {
  const iterators = streams.map((stream) => stream[Symbol.asyncIterator]());
  try {
    const heads = await Promise.all(iterators.map(next));
    for (;;) {
      let least: Subscriber | undefined;
      for (const head of heads) {
        if (head !== undefined && (least === undefined || head.token < least.token)) least = head;
      }
      if (least === undefined) return;
      yield least;
      for (const [index, iterator] of iterators.entries()) {
        if (heads[index]?.token === least.token) heads[index] = await next(iterator);
      }
    }
  } finally {
    await Promise.all(iterators.map((iterator) => iterator.return?.()));
  }
}

async function next(iterator: AsyncIterator<Subscriber>): Promise<Subscriber | undefined> {
  const { done, value } = await iterator.next();
  return done ? undefined : value;
}
