import { createGroup } from '@carillon/core/group';
import { writeEntry } from './hand-over-entries.ts';
import { handOverKey, placeKey, readPlace, TTL, writePlace } from './keys.ts';
import type { Redis } from './redis.ts';

/** A device and the connection by which it is here. */
export interface Link {
  token: string;
  connection: string;
}

/**
 * Writes a place again, unless the device went to another connection meanwhile; then that place is the answer.
 * A place of the same connection under an older identity of its gateway is our own.
 */
const RENEW_PLACE = `
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] and string.match(there, '|(.*)$') ~= ARGV[2] then return there end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
return false`;

/** Removes a place only if it is still this connection's: a late close never hides a newer link (G11). */
const REMOVE_PLACE = `
local there = redis.call('GET', KEYS[1])
if there and string.match(there, '|(.*)$') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return false`;

type Answers = [error: Error | null, result: unknown][];

/** Places of devices in Redis; each call takes many and costs one round trip. */
export interface Places {
  /** Writes the place of a new connection and tells the gateway of an older one to close it. */
  take(link: Link): Promise<void>;
  /** Writes places again; returns the links whose device has gone elsewhere. Throws when Redis fails. */
  renew(links: readonly Link[]): Promise<Link[]>;
  /** Removes the place of a closed connection. */
  remove(link: Link): Promise<void>;
}

/**
 * @param gateway the present identity
 * @param isHere whether a connection is still open
 */
export function createPlaces(
  redis: Redis,
  { gateway, isHere }: { gateway(): string | undefined; isHere(link: Link): boolean },
): Places {
  function identity(): string {
    const id = gateway();
    if (id === undefined) throw new Error('no identity yet: Redis was not reached');
    return id;
  }

  const take = createGroup<Link, void>(
    async (links) => {
      const id = identity();
      // A link that closed while it waited here must not be announced after its removal.
      const open = links.filter(isHere);
      const pipeline = redis.pipeline();
      for (const { token, connection } of open) {
        pipeline.set(placeKey(token), writePlace(id, connection), 'EX', TTL.place, 'GET');
      }
      const answers = open.length === 0 ? [] : await run(pipeline);
      await kick(open, answers);
      const failed = new Map(open.map((link, index) => [link, answers[index]?.[0]]));
      return links.map((link) => failed.get(link) as undefined | Error);
    },
    { inFlight: 4 },
  );

  /** Tells the gateways of older connections; one that is gone has no stream any more, and that is well. */
  async function kick(links: readonly Link[], answers: Answers): Promise<void> {
    const pipeline = redis.pipeline();
    for (const [index, { token, connection }] of links.entries()) {
      const older = readPlace(answers[index]?.[1] as string | null);
      if (older === undefined || older.connection === connection) continue;
      const entry = writeEntry({ kind: 'kick', token, connection: older.connection });
      pipeline.xadd(handOverKey(older.gateway), 'NOMKSTREAM', '*', ...entry);
    }
    if (pipeline.length > 0) await pipeline.exec();
  }

  const remove = createGroup<Link, void>(
    async (links) => {
      const pipeline = redis.pipeline();
      for (const { token, connection } of links) {
        pipeline.eval(REMOVE_PLACE, 1, placeKey(token), connection);
      }
      return (await run(pipeline)).map(([error]) => error as undefined | Error);
    },
    { inFlight: 4 },
  );

  return {
    take,
    remove,
    async renew(links) {
      const id = identity();
      const pipeline = redis.pipeline();
      for (const { token, connection } of links) {
        pipeline.eval(
          RENEW_PLACE,
          1,
          placeKey(token),
          writePlace(id, connection),
          connection,
          TTL.place,
        );
      }
      const answers = links.length === 0 ? [] : await run(pipeline);
      for (const [error] of answers) if (error) throw error;
      return links.filter((_, index) => typeof answers[index]?.[1] === 'string');
    },
  };
}

async function run(pipeline: { exec(): Promise<Answers | null> }): Promise<Answers> {
  return (await pipeline.exec()) ?? [];
}
