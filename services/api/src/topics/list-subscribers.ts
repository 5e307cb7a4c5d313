import { ApiError } from '@carillon/core/api-error';
import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';

/** What paging needs of the store. */
export interface SubscriberListDeps {
  page(app: string, topic: string, after: string, limit: number): Promise<{ token: string }[]>;
  anchor(app: string, topic: string, page: number): Promise<string | undefined>;
  setAnchor(app: string, topic: string, page: number, after: string): Promise<string>;
}

const PAGE = LIMITS.subscribersPerPage;
const PAGES_MAX = 1_000_000;

/**
 * `GET /topics/<topic>` (specification 4.9). Pages begin where the one before ended, for 10 minutes the same for
 * everybody, so that going through them misses nobody (guarantee G12). A page whose predecessor nobody has read
 * is found by walking there.
 *
 * @param apiKey the caller's, for the link to the next page as the specification shows it
 * @throws ApiError INVALID_PARAM
 */
export async function listSubscribers(
  deps: SubscriberListDeps,
  app: string,
  { topic, page, apiKey }: { topic: string; page: string | undefined; apiKey: string },
): Promise<{ subscribers: string[]; pagination?: string }> {
  if (!TOPIC_NAME.test(topic)) {
    throw new ApiError('INVALID_PARAM', 'A topic name must match [a-zA-Z0-9-_.]{1,100}.');
  }
  const number = pageNumber(page);
  const after = await beginOf(deps, app, topic, number);
  if (after === undefined) return { subscribers: [] };
  const next = await deps.anchor(app, topic, number + 1);
  const found = (await deps.page(app, topic, after, PAGE + 1)).map(({ token }) => token);
  const within = next === undefined ? found : found.filter((token) => token <= next);
  const subscribers = within.slice(0, PAGE);
  const isLast = found.length <= PAGE && within.length === found.length;
  if (isLast) return { subscribers };
  if (next === undefined || within.length > PAGE) {
    await deps.setAnchor(app, topic, number + 1, subscribers.at(-1) ?? after);
  }
  const link = `/topics/${topic}?api_key=${apiKey}&page=${number + 1}`;
  return { subscribers, pagination: link };
}

function pageNumber(page: string | undefined): number {
  if (page === undefined) return 1;
  if (/^\d{1,7}$/.test(page) && Number(page) >= 1 && Number(page) <= PAGES_MAX) return Number(page);
  throw new ApiError('INVALID_PARAM', 'The parameter "page" must be a positive integer.');
}

/** The token after which a page begins; undefined past the end. */
async function beginOf(
  deps: SubscriberListDeps,
  app: string,
  topic: string,
  page: number,
): Promise<string | undefined> {
  if (page === 1) return '';
  const anchor = await deps.anchor(app, topic, page);
  if (anchor !== undefined) return anchor;
  let after = '';
  for (let at = 1; at < page; at += 1) {
    const found = await deps.page(app, topic, after, PAGE);
    const last = found.at(-1);
    if (last === undefined || found.length < PAGE) return undefined;
    after = await deps.setAnchor(app, topic, at + 1, last.token);
  }
  return after;
}
