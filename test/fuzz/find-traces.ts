import type { Db } from 'mongodb';
import { openMongo } from '../support/mongo.ts';
import { openRedis } from '../support/redis.ts';
import { readRedisContents } from '../support/redis-contents.ts';
import type { Dev } from '../support/stack/dev-file.ts';
import { type ApiFuzzReport, MARKS } from './fuzz-api.ts';
import type { FuzzTarget } from './fuzz-target.ts';

/** Collections whose documents are made by one request each, whose response has their id. */
const MADE_BY_REQUESTS = ['pushes', 'devices', 'webhooks'];

/** Searches MongoDB and Redis for anything that a refused request has left there. */
export async function findTraces(
  dev: Pick<Dev, 'mongodb' | 'redis'>,
  target: Pick<FuzzTarget, 'apps' | 'knownIds'>,
  { isRefused }: Pick<ApiFuzzReport, 'isRefused'>,
): Promise<string[]> {
  const mongo = await openMongo(dev);
  const redis = await openRedis(dev);
  try {
    const entries = await readRedisContents(redis);
    const inRedis = entries.flatMap(({ key, text }) =>
      findRefused(`${key} ${text}`, isRefused).map((mark) => `${mark} in Redis: ${key}`),
    );
    return [...inRedis, ...(await findInDatabase(mongo.db, target, isRefused))];
  } finally {
    redis.disconnect();
    await mongo.close();
  }
}

async function findInDatabase(
  db: Db,
  { apps, knownIds }: Pick<FuzzTarget, 'apps' | 'knownIds'>,
  isRefused: (mark: string) => boolean,
): Promise<string[]> {
  const found: string[] = [];
  for (const { collectionName: name } of await db.collections()) {
    for await (const document of db.collection<{ _id: unknown; app?: string }>(name).find()) {
      const { _id, app = '' } = document;
      const marks = findRefused(JSON.stringify(document), isRefused);
      found.push(...marks.map((mark) => `${mark} in ${name}: ${_id}`));
      const isMade = MADE_BY_REQUESTS.includes(name) && apps.includes(app);
      if (isMade && !knownIds.has(String(_id))) found.push(`${name} ${_id} has no response`);
    }
  }
  return found;
}

function findRefused(text: string, isRefused: (mark: string) => boolean): string[] {
  return [...new Set(text.match(MARKS))].filter(isRefused);
}
