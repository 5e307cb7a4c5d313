import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  makeAuthority,
  makeServerCertificate,
} from '../../services/supervisor/src/certificates.ts';
import { median, type Row } from '../table.ts';
import { type Contestant, startContestant } from './contestant.ts';

const PAYLOAD_BYTES = 300;
const WARM_UP = { devices: 300, times: 200 };
const ROUNDS = 9;

interface Size {
  devices: number;
  secureDevices: number;
  timesPerRound: number;
}

const FULL: Size = { devices: 9_000, secureDevices: 2_000, timesPerRound: 10 };
const QUICK: Size = { devices: 3_000, secureDevices: 500, timesPerRound: 10 };

/**
 * What a message and a connection cost the gateway, against a bare socket server and against aedes. CPU is each
 * server's own, so that what else the machine does matters little; rounds go by turns, the median counts.
 */
export async function benchGateway(isQuick: boolean): Promise<Row[]> {
  const size = isQuick ? QUICK : FULL;
  const [raw, ours, aedes] = await Promise.all([
    startContestant('raw-server.ts'),
    startContestant('our-server.ts'),
    startContestant('aedes-server.ts'),
  ]);
  const all = { raw, ours, aedes };
  try {
    const bytes = await inTurn(all, (one) => bytesPerConnection(one, size.devices));
    const cpu = await cpuPerMessage(all, size.timesPerRound);
    const secureBytes = await overTls((one) => bytesPerConnection(one, size.secureDevices));
    return [
      { what: 'raw: CPU a message', value: cpu.raw, unit: 'µs' },
      { what: 'gateway: CPU a message', value: cpu.ours, unit: 'µs' },
      { what: 'aedes: CPU a message', value: cpu.aedes, unit: 'µs' },
      {
        what: 'messages a CPU-second, against raw',
        value: cpu.raw / cpu.ours,
        goal: { atLeast: 0.8 },
      },
      {
        what: 'messages a CPU-second, against aedes',
        value: cpu.aedes / cpu.ours,
        goal: { atLeast: 1.5 },
      },
      { what: 'raw: memory a connection', value: bytes.raw / 1_024, unit: 'KB' },
      { what: 'gateway: memory a connection', value: bytes.ours / 1_024, unit: 'KB' },
      { what: 'aedes: memory a connection', value: bytes.aedes / 1_024, unit: 'KB' },
      { what: 'memory against raw', value: bytes.ours / bytes.raw, goal: { atMost: 1.5 } },
      { what: 'memory against aedes', value: bytes.ours / bytes.aedes, goal: { atMost: 0.4 } },
      {
        what: 'gateway over TLS: memory',
        value: secureBytes / 1_024,
        unit: 'KB',
        goal: { atMost: 60 },
      },
    ];
  } finally {
    await Promise.all(Object.values(all).map((one) => one.stop()));
  }
}

type Contest<T> = Record<'raw' | 'ours' | 'aedes', T>;

/** One after the other: side by side they would take each other's time. */
async function inTurn(
  { raw, ours, aedes }: Contest<Contestant>,
  measure: (one: Contestant) => Promise<number>,
): Promise<Contest<number>> {
  return { raw: await measure(raw), ours: await measure(ours), aedes: await measure(aedes) };
}

/** Warm before and after: what the first connections and messages take is the program's, not the links'. */
async function bytesPerConnection(one: Contestant, devices: number): Promise<number> {
  await one.connect(WARM_UP.devices);
  await one.send(WARM_UP.times, PAYLOAD_BYTES);
  const before = await one.memory();
  await one.connect(devices);
  await one.send(3, PAYLOAD_BYTES);
  return ((await one.memory()) - before) / devices;
}

async function cpuPerMessage(all: Contest<Contestant>, times: number): Promise<Contest<number>> {
  const rounds: Contest<number>[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    rounds.push(await inTurn(all, (one) => one.send(times, PAYLOAD_BYTES)));
  }
  const middle = (name: keyof Contest<number>) => median(rounds.map((round) => round[name]));
  return { raw: middle('raw'), ours: middle('ours'), aedes: middle('aedes') };
}

async function overTls(measure: (one: Contestant) => Promise<number>): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-bench-'));
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const pair = await makeServerCertificate(await makeAuthority(2), ['127.0.0.1'], 1);
  await Promise.all([writeFile(certFile, pair.certificate), writeFile(keyFile, pair.key)]);
  const secure = await startContestant('our-server.ts', [certFile, keyFile]);
  try {
    return await measure(secure);
  } finally {
    await secure.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
