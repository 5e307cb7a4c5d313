import { pushIdOf, type Size, type StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { measureAlternately, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const ROUNDS = 7;
const TOKENS: Record<Size, number> = { quick: 30_000, usual: 100_000, full: 100_000 };
const TOKENS_PER_QUERY = 1_000;
const CONCURRENT_QUERIES = 8;
const AN_HOUR_SECONDS = 3_600;

/** Measures a push to the maximum number of tokens until its 200. It is scheduled, so only the accept is measured. */
export async function tokens(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { stack, mongo, audience, request, call } = fixture;
  const to = await audience.register(TOKENS[size]);
  const schedule = Math.floor(Date.now() / 1_000) + AN_HOUR_SECONDS;
  const body = JSON.stringify({ to, data: { message: 'Hello' }, schedule });
  const bytes = request('POST', '/push', body);
  const rounds = await measureAlternately(
    ROUNDS + 1,
    () => measureMs(() => parseAndFind(mongo, stack.dev.app, body)),
    async () => {
      let id = '';
      const ms = await measureMs(async () => {
        id = pushIdOf(await call(bytes));
      });
      await call(request('DELETE', `/pushes/${id}`));
      return ms;
    },
  );
  const count = TOKENS[size].toLocaleString('en');
  const what = `tokens: ${count} to the 200 against JSON.parse and look-ups`;
  return [ratioRow(what, rounds.slice(1), { unit: 'ms', ratio: 'ours/floor' })];
}

async function parseAndFind(
  mongo: StackFixture['mongo'],
  app: string,
  body: string,
): Promise<void> {
  const { to } = JSON.parse(body) as { to: string[] };
  let found = 0;
  await runConcurrently(Math.ceil(to.length / TOKENS_PER_QUERY), CONCURRENT_QUERIES, async (n) => {
    const some = to.slice(n * TOKENS_PER_QUERY, (n + 1) * TOKENS_PER_QUERY);
    // The fastest query: the server merges the results.
    const groups = await mongo
      .collection<{ _id: string }>('devices')
      .aggregate<{ tokens: string[] }>([
        { $match: { _id: { $in: some }, app, deletedAt: { $exists: false } } },
        { $group: { _id: '$platform', tokens: { $push: '$_id' } } },
      ])
      .toArray();
    for (const group of groups) found += group.tokens.length;
  });
  if (found !== to.length) throw new Error(`${found} of ${to.length} tokens were found`);
}

async function measureMs(work: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
