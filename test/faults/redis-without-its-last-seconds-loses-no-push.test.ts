import { readdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  createRedisServer,
  type Persistence,
  type RedisServer,
} from '../support/faults/redis-server.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: 10, perPush: 3 };
const DEVICES = 12;
/** Before the loss, in the seconds that are lost, and after. */
const PUSHES = 30;
/** Ends the log in the middle of a command, as a kill of Redis between two writes of the file does. */
const TORN_BYTES = 7;

let redis: RedisServer | undefined;
let fixture: Fixture | undefined;
afterEach(async () => {
  await fixture?.close();
  await redis?.remove();
  fixture = undefined;
  redis = undefined;
});

/** Returns the path of the log that Redis appends to. */
async function findLog({ dir }: RedisServer): Promise<string> {
  const folder = join(dir, 'appendonlydir');
  const name = (await readdir(folder)).find((one) => one.endsWith('.incr.aof'));
  if (name === undefined) throw new Error(`no log in ${folder}`);
  return join(folder, name);
}

/** Saves the data of Redis. Returns a function that restores it in a killed Redis. */
const KEEP: Record<Persistence, (server: RedisServer) => Promise<() => Promise<void>>> = {
  async log(server) {
    const log = await findLog(server);
    const { size } = await stat(log);
    return () => truncate(log, size + TORN_BYTES);
  },
  async snapshot(server) {
    const client = await openRedis({ redis: server.url });
    await client.save().finally(() => client.disconnect());
    return async () => undefined;
  },
};

test.each<Persistence>(['log', 'snapshot'])(
  'killed under load and restarted from a %s that is seconds old',
  async (persistence) => {
    redis = await createRedisServer({ persistence });
    await redis.start();
    const size = { registered: DEVICES, real: DEVICES };
    fixture = await openFixture(size, { env: { REDIS_URL: redis.url } });
    const { stack, pool } = fixture;
    const server = redis;
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      const undo = await KEEP[persistence](server);
      // Their new presence entries are lost too.
      for (const device of pool.devices.slice(0, 2)) device.cut();
      await until(() => pool.devices.every((device) => device.connected));
      await load.untilAccepted(PUSHES);
      await server.kill();
      await undo();
      await server.start();
      await load.untilAccepted(PUSHES);
    });
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    await expectWholeOrAbsent(`Redis back from a ${persistence}`, fixture, sent);
    expect(stack.output()).not.toMatch(/ ended \(/);
  },
  240_000,
);
