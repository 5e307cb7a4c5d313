import type { Store } from '@carillon/store/store';
import type { TopicSize } from '@carillon/store/topics';
import { type ResponseBody, StreamedBody } from '../http/response.ts';

/** Parts of the process that a long list uses. */
export interface TopicListContext {
  /** Cuts all long lists: the process stops. */
  signal: AbortSignal;
  onError(error: unknown): void;
}

/**
 * Handles `GET /topics` (specification 4.8). An app may have millions of topics, because devices create them by
 * subscribing. A list of more than one page is sent while it is read, so that it needs no more memory than a short one.
 */
export async function listTopics(
  { topics }: Pick<Store, 'topics'>,
  app: string,
  { signal, onError }: TopicListContext,
): Promise<ResponseBody> {
  const pages = topics.pages(app);
  const [first, second] = [await pages.next(), await pages.next()];
  if (first.done || second.done) return { topics: first.value ?? [] };
  const chunks = writePages([first.value, second.value], pages);
  return new StreamedBody('application/json; charset=utf-8', chunks, {
    signal,
    onEnd(error) {
      if (error !== undefined && !signal.aborted) onError(error);
    },
  });
}

async function* writePages(
  begun: readonly TopicSize[][],
  rest: AsyncGenerator<TopicSize[]>,
): AsyncGenerator<string> {
  let before = '{"topics":[';
  for await (const page of concatenate(begun, rest)) {
    if (page.length === 0) continue;
    yield before + page.map((topic) => JSON.stringify(topic)).join(',');
    before = ',';
  }
  yield before === ',' ? ']}' : `${before}]}`;
}

async function* concatenate<T>(first: readonly T[], rest: AsyncGenerator<T>): AsyncGenerator<T> {
  yield* first;
  yield* rest;
}
