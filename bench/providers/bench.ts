import { measureAlternately, type Round, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { type Servers, startSender, startServers } from './child-processes.ts';

/** A channel of Carillon and its reference. */
interface Comparison {
  channel: string;
  ours: string;
  baseline: string;
  /** Name of the reference. */
  baselineName: string;
  /** Lowest ratio of the messages that the same CPU time is enough for. */
  /** Messages per round: about half a second of the slower side. */
  messages: number;
}

const COMPARISONS: readonly Comparison[] = [
  {
    channel: 'APNs',
    ours: 'apns-ours-process.ts',
    baseline: 'apns-floor-process.ts',
    baselineName: 'bare HTTP/2',
    messages: 8_000,
  },
  {
    channel: 'FCM',
    ours: 'fcm-ours-process.ts',
    baseline: 'fcm-floor-process.ts',
    baselineName: 'bare HTTP/2',
    messages: 3_000,
  },
  {
    channel: 'FCM',
    ours: 'fcm-ours-process.ts',
    baseline: 'fcm-http1-process.ts',
    baselineName: 'bare HTTP/1.1',
    messages: 3_000,
  },
  {
    channel: 'Web Push',
    ours: 'web-push-ours-process.ts',
    baseline: 'web-push-library-process.ts',
    baselineName: 'web-push',
    messages: 600,
  },
];

/** Pairs of processes and rounds per pair: compilation differs between processes, garbage collection between rounds. */
const PAIRS = { full: 3, quick: 1 };
const ROUNDS = { full: 15, quick: 11 };
/** Warm-up rounds: until the code is compiled and all connections are open. */
const WARM_UP_ROUNDS = 8;

/**
 * Measures the sender's CPU time per message through each provider's channel, compared with the floor or with the
 * library alone. Rounds alternate, and each has its own ratio; the result is the median over the rounds of all pairs
 * of processes.
 *
 * Measures CPU time only: BBR paces loopback connections too, and a run may stall for seconds.
 */
export async function benchProviders(isQuick: boolean): Promise<Row[]> {
  const servers = await startServers();
  try {
    const rows: Row[] = [];
    for (const comparison of COMPARISONS)
      rows.push(...(await compare(comparison, servers, isQuick)));
    return rows;
  } finally {
    await servers.stop();
  }
}

async function compare(comparison: Comparison, servers: Servers, isQuick: boolean): Promise<Row[]> {
  const { channel, baselineName, messages } = comparison;
  const size = isQuick ? 'quick' : 'full';
  const rounds: Round[] = [];
  let serversCpu = 0;
  for (let pair = 0; pair < PAIRS[size]; pair += 1) {
    const measured = await comparePair(comparison, servers, ROUNDS[size]);
    rounds.push(...measured.rounds);
    serversCpu += measured.serversCpu;
  }
  const rowOptions = {
    unit: 'µs',
    ratio: 'floor/ours',
  } as const;
  return [
    ratioRow(`${channel} against ${baselineName}: messages a CPU-second`, rounds, rowOptions),
    {
      what: `${channel} against ${baselineName}: the server's CPU a message`,
      value: serversCpu / (2 * messages * rounds.length),
      unit: 'µs',
    },
  ];
}

/** Measures one pair of processes. `serversCpu`: microseconds. */
async function comparePair(
  comparison: Comparison,
  servers: Servers,
  count: number,
): Promise<{ rounds: Round[]; serversCpu: number }> {
  const baseline = await startSender(comparison.baseline, servers.fixture);
  const ours = await startSender(comparison.ours, servers.fixture);
  const runRounds = (rounds: number) =>
    measureAlternately(
      rounds,
      () => baseline.send(comparison.messages),
      () => ours.send(comparison.messages),
    );
  try {
    await runRounds(WARM_UP_ROUNDS);
    const before = await servers.cpu();
    const rounds = await runRounds(count);
    return { rounds, serversCpu: (await servers.cpu()) - before };
  } finally {
    await Promise.all([baseline.stop(), ours.stop()]);
  }
}
