import { inTurns, ratioRow } from '../support/figures.ts';
import { inFlight, middle } from '../support/pace.ts';
import type { Scene, Size } from '../support/scene.ts';
import type { Row } from '../table.ts';
import { createPushFloor } from './push-floor.ts';

const ROUNDS = 5;
const AT_ONCE = 100;
/** Spread over so many devices that no inbox gets full. */
const DEVICES = 500;
const PUSHES: Record<Size, number> = { quick: 1_500, usual: 5_000, full: 10_000 };
const LONE: Record<Size, number> = { quick: 100, usual: 400, full: 1_000 };

/** Accepted single pushes a second while a hundred are in flight; the devices are offline, the stack works on. */
export async function accept(scene: Scene, size: Size): Promise<Row[]> {
  const sendOne = await createSender(scene);
  const insertOne = createPushFloor(scene.mongo, scene.stack.dev.app);
  const count = PUSHES[size];
  const rounds = await inTurns(
    ROUNDS + 1,
    () => perSecond(count, insertOne),
    async () => {
      const rate = await perSecond(count, sendOne);
      await scene.untilIdle();
      return rate;
    },
  );
  const what = 'accept: pushes a second against one journaled insert each';
  const goal = { atLeast: 3 };
  return [ratioRow(what, rounds.slice(1), { unit: '/s', goal, ratio: 'ours/floor' })];
}

/** How long a lone push waits for its 200. */
export async function acceptOne(scene: Scene, size: Size): Promise<Row[]> {
  const sendOne = await createSender(scene);
  const insertOne = createPushFloor(scene.mongo, scene.stack.dev.app);
  const rounds = await inTurns(
    ROUNDS + 1,
    () => middle(LONE[size], insertOne),
    async () => {
      const ms = await middle(LONE[size], sendOne);
      await scene.untilIdle();
      return ms;
    },
  );
  const what = 'accept-one: p50 of a lone push against a journaled insert';
  const goal = { atMost: 2 };
  return [ratioRow(what, rounds.slice(1), { unit: 'ms', goal, ratio: 'ours/floor' })];
}

async function createSender({ audience, request, call }: Scene): Promise<() => Promise<void>> {
  const requests = (await audience.register(DEVICES)).map((to) =>
    request('POST', '/push', JSON.stringify({ to, data: { message: 'Hello' } })),
  );
  let next = 0;
  return async () => {
    next += 1;
    const bytes = requests[next % requests.length];
    if (bytes !== undefined) await call(bytes);
  };
}

async function perSecond(count: number, once: () => Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await inFlight(count, AT_ONCE, once);
  return (count * 1_000) / (performance.now() - startedAt);
}
