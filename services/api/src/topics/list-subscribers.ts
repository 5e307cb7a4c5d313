import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import { invalidParameter } from '@carillon/core/validate';
import type { Store } from '@carillon/store/store';

/** Collections that the subscriber list is read from. */
type SubscriberListStore = Pick<Store, 'subscriptions' | 'topics' | 'pageCursors'>;

const PAGE_SIZE = LIMITS.subscribersPerPage;
const MAX_PAGE_NUMBER = 1_000_000;

/**
 * Handles `GET /topics/<topic>` (specification 4.9). A page begins where the page before it ended. That position is
 * kept for 10 minutes and is the same for all callers, so paging through the list misses no subscriber (guarantee
 * G12). The start of a page whose previous page was not read is found by paging from the first page, unless the
 * topic's counter shows that the page is far past the end.
 *
 * @param apiKey the caller's key, for the link to the next page as the specification shows it
 * @throws ApiError INVALID_PARAM
 */
export async function listSubscribers(
  store: SubscriberListStore,
  app: string,
  { topic, page, apiKey }: { topic: string; page: string | undefined; apiKey: string },
): Promise<{ subscribers: string[]; pagination?: string }> {
  if (!TOPIC_NAME.test(topic)) {
    throw invalidParameter('topic', 'must match [a-zA-Z0-9-_.]{1,100}');
  }
  const pageNumber = parsePageNumber(page);
  const after = await findPageStart(store, app, topic, pageNumber);
  if (after === undefined) return { subscribers: [] };
  const next = await store.pageCursors.find(app, topic, pageNumber + 1);
  const found = (await store.subscriptions.listPage(app, topic, after, PAGE_SIZE + 1)).map(
    ({ token }) => token,
  );
  const withinPage = next === undefined ? found : found.filter((token) => token <= next);
  const subscribers = withinPage.slice(0, PAGE_SIZE);
  const isLast = found.length <= PAGE_SIZE && withinPage.length === found.length;
  if (isLast) return { subscribers };
  if (next === undefined || withinPage.length > PAGE_SIZE) {
    await store.pageCursors.set(app, topic, pageNumber + 1, subscribers.at(-1) ?? after);
  }
  const link = `/topics/${topic}?api_key=${apiKey}&page=${pageNumber + 1}`;
  return { subscribers, pagination: link };
}

function parsePageNumber(page: string | undefined): number {
  if (page === undefined) return 1;
  if (/^\d{1,7}$/.test(page) && Number(page) >= 1 && Number(page) <= MAX_PAGE_NUMBER)
    return Number(page);
  throw invalidParameter('page', 'must be a positive integer');
}

/** Returns the token after which a page begins; undefined past the end. */
async function findPageStart(
  store: SubscriberListStore,
  app: string,
  topic: string,
  page: number,
): Promise<string | undefined> {
  if (page === 1) return '';
  const cursor = await store.pageCursors.find(app, topic, page);
  if (cursor !== undefined) return cursor;
  const counters = await store.topics.findCounters(app, [topic]);
  // One more page, because a recent change may not be counted yet.
  if ((page - 2) * PAGE_SIZE > (counters.get(topic)?.subscribers ?? 0)) return undefined;
  let after = '';
  for (let current = 1; current < page; current += 1) {
    const found = await store.subscriptions.listPage(app, topic, after, PAGE_SIZE);
    const last = found.at(-1);
    if (last === undefined || found.length < PAGE_SIZE) return undefined;
    after = await store.pageCursors.set(app, topic, current + 1, last.token);
  }
  return after;
}
