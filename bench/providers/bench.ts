import { inTurns, ratioRow } from '../support/figures.ts';
import type { Row } from '../table.ts';
import { type Servers, startSender, startServers } from './processes.ts';

/** Our channel, and what it is held against. */
interface Contest {
  channel: string;
  ours: string;
  against: string;
  /** Who that is. */
  name: string;
  /** Absent: only told, to show where the time goes. */
  goal?: number;
  /** Messages of a round: about a second of the slower side. */
  messages: number;
}

const CONTESTS: readonly Contest[] = [
  {
    channel: 'APNs',
    ours: 'apns-ours-process.ts',
    against: 'apns-floor-process.ts',
    name: 'bare HTTP/2',
    goal: 0.9,
    messages: 20_000,
  },
  {
    channel: 'FCM',
    ours: 'fcm-ours-process.ts',
    against: 'fcm-floor-process.ts',
    name: 'bare HTTP/2',
    goal: 0.55,
    messages: 6_000,
  },
  {
    channel: 'FCM',
    ours: 'fcm-ours-process.ts',
    against: 'fcm-http1-process.ts',
    name: 'bare HTTP/1.1',
    messages: 6_000,
  },
  {
    channel: 'Web Push',
    ours: 'web-push-ours-process.ts',
    against: 'web-push-library-process.ts',
    name: 'web-push',
    goal: 2,
    messages: 3_000,
  },
];

const ROUNDS = { full: 9, quick: 5 };
/** Until the code is compiled and all links are there. */
const WARM_UP_ROUNDS = 2;

/**
 * What a message costs the process that sends it, through each provider's channel, against the least that it could
 * cost or against the library alone. Rounds go by turns, and each has its own ratio: the median of those counts.
 *
 * CPU alone is measured, for BBR paces loopback too, and a run of it may stall for seconds.
 */
export async function benchProviders(isQuick: boolean): Promise<Row[]> {
  const servers = await startServers();
  try {
    const rows: Row[] = [];
    for (const contest of CONTESTS) rows.push(...(await hold(contest, servers, isQuick)));
    return rows;
  } finally {
    await servers.stop();
  }
}

async function hold(contest: Contest, servers: Servers, isQuick: boolean): Promise<Row[]> {
  const { channel, name, goal } = contest;
  const against = await startSender(contest.against, servers.scene);
  const ours = await startSender(contest.ours, servers.scene);
  const messages = isQuick ? contest.messages / 2 : contest.messages;
  const take = (rounds: number) =>
    inTurns(
      rounds,
      () => against.send(messages),
      () => ours.send(messages),
    );
  try {
    await take(WARM_UP_ROUNDS);
    const before = await servers.cpu();
    const rounds = await take(isQuick ? ROUNDS.quick : ROUNDS.full);
    const used = (await servers.cpu()) - before;
    const held = {
      unit: 'µs',
      ratio: 'floor/ours',
      ...(goal && { goal: { atLeast: goal } }),
    } as const;
    return [
      ratioRow(`${channel} against ${name}: messages a CPU-second`, rounds, held),
      {
        what: `${channel} against ${name}: the server's CPU a message`,
        value: used / (2 * messages * rounds.length),
        unit: 'µs',
      },
    ];
  } finally {
    await Promise.all([against.stop(), ours.stop()]);
  }
}
