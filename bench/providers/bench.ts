import { inTurns, type Round, ratioRow } from '../support/figures.ts';
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
  /** Messages of a round: about half a second of the slower side. */
  messages: number;
}

const CONTESTS: readonly Contest[] = [
  {
    channel: 'APNs',
    ours: 'apns-ours-process.ts',
    against: 'apns-floor-process.ts',
    name: 'bare HTTP/2',
    goal: 0.9,
    messages: 8_000,
  },
  {
    channel: 'FCM',
    ours: 'fcm-ours-process.ts',
    against: 'fcm-floor-process.ts',
    name: 'bare HTTP/2',
    goal: 0.55,
    messages: 3_000,
  },
  {
    channel: 'FCM',
    ours: 'fcm-ours-process.ts',
    against: 'fcm-http1-process.ts',
    name: 'bare HTTP/1.1',
    messages: 3_000,
  },
  {
    channel: 'Web Push',
    ours: 'web-push-ours-process.ts',
    against: 'web-push-library-process.ts',
    name: 'web-push',
    goal: 2,
    messages: 600,
  },
];

/** One process's code is compiled more luckily than another's, and one round has more garbage to collect. */
const PAIRS = { full: 3, quick: 1 };
const ROUNDS = { full: 15, quick: 11 };
/** Until the code is compiled and all links are there. */
const WARM_UP_ROUNDS = 8;

/**
 * What a message costs the process that sends it, through each provider's channel, against the least that it could
 * cost or against the library alone. Rounds go by turns, and each has its own ratio: the median of those of all pairs
 * of processes counts.
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
  const { channel, name, goal, messages } = contest;
  const size = isQuick ? 'quick' : 'full';
  const rounds: Round[] = [];
  let serversCpu = 0;
  for (let pair = 0; pair < PAIRS[size]; pair += 1) {
    const taken = await holdPair(contest, servers, ROUNDS[size]);
    rounds.push(...taken.rounds);
    serversCpu += taken.serversCpu;
  }
  const held = {
    unit: 'µs',
    ratio: 'floor/ours',
    ...(goal && { goal: { atLeast: goal } }),
  } as const;
  return [
    ratioRow(`${channel} against ${name}: messages a CPU-second`, rounds, held),
    {
      what: `${channel} against ${name}: the server's CPU a message`,
      value: serversCpu / (2 * messages * rounds.length),
      unit: 'µs',
    },
  ];
}

/** One pair of processes. `serversCpu`: microseconds. */
async function holdPair(
  contest: Contest,
  servers: Servers,
  count: number,
): Promise<{ rounds: Round[]; serversCpu: number }> {
  const against = await startSender(contest.against, servers.scene);
  const ours = await startSender(contest.ours, servers.scene);
  const take = (rounds: number) =>
    inTurns(
      rounds,
      () => against.send(contest.messages),
      () => ours.send(contest.messages),
    );
  try {
    await take(WARM_UP_ROUNDS);
    const before = await servers.cpu();
    const rounds = await take(count);
    return { rounds, serversCpu: (await servers.cpu()) - before };
  } finally {
    await Promise.all([against.stop(), ours.stop()]);
  }
}
