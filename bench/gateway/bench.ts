import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeAuthority, makeServerCertificate } from '../../packages/runtime/src/certificates.ts';
import { ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { type ServerUnderTest, startServerUnderTest } from './server-under-test.ts';

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
 * Measures what a message and a connection cost the gateway, compared to a bare socket server and to aedes. CPU time is
 * each server's own, so that other load on the machine matters little; rounds alternate.
 */
export async function benchGateway(isQuick: boolean): Promise<Row[]> {
  const size = isQuick ? QUICK : FULL;
  const [raw, ours, aedes] = await Promise.all([
    startServerUnderTest('raw-server.ts'),
    startServerUnderTest('our-server.ts'),
    startServerUnderTest('aedes-server.ts'),
  ]);
  const servers = { raw, ours, aedes };
  try {
    const bytes = await measureInTurn(servers, (server) =>
      measureBytesPerConnection(server, size.devices),
    );
    const rounds = await measureCpuPerMessage(servers, size.timesPerRound);
    const against = (name: 'raw' | 'aedes') =>
      ratioRow(
        `gateway: messages a CPU-second, against ${name}`,
        rounds.map((round) => ({ floor: round[name], ours: round.ours })),
        { unit: 'µs', ratio: 'floor/ours' },
      );
    const secureBytes = await measureOverTls((server) =>
      measureBytesPerConnection(server, size.secureDevices),
    );
    const proxiedBytes = await measureBehindProxy((server) =>
      measureBytesPerConnection(server, size.devices),
    );
    return [
      against('raw'),
      against('aedes'),
      { what: 'raw: memory a connection', value: bytes.raw / 1_024, unit: 'KB' },
      { what: 'gateway: memory a connection', value: bytes.ours / 1_024, unit: 'KB' },
      { what: 'aedes: memory a connection', value: bytes.aedes / 1_024, unit: 'KB' },
      { what: 'memory against raw', value: bytes.ours / bytes.raw, unit: '×' },
      { what: 'memory against aedes', value: bytes.ours / bytes.aedes, unit: '×' },
      { what: 'gateway behind a PROXY header: memory', value: proxiedBytes / 1_024, unit: 'KB' },
      {
        what: 'gateway over TLS: memory',
        value: secureBytes / 1_024,
        unit: 'KB',
      },
    ];
  } finally {
    await Promise.all(Object.values(servers).map((server) => server.stop()));
  }
}

type ByServer<T> = Record<'raw' | 'ours' | 'aedes', T>;

/** Measures one server after the other: in parallel they would compete for CPU. */
async function measureInTurn(
  { raw, ours, aedes }: ByServer<ServerUnderTest>,
  measure: (server: ServerUnderTest) => Promise<number>,
): Promise<ByServer<number>> {
  return { raw: await measure(raw), ours: await measure(ours), aedes: await measure(aedes) };
}

/** Measures after a warm-up: memory of the first connections and messages belongs to the program. */
async function measureBytesPerConnection(
  server: ServerUnderTest,
  devices: number,
): Promise<number> {
  await server.connect(WARM_UP.devices);
  await server.send(WARM_UP.times, PAYLOAD_BYTES);
  const before = await server.memory();
  await server.connect(devices);
  await server.send(3, PAYLOAD_BYTES);
  return ((await server.memory()) - before) / devices;
}

async function measureCpuPerMessage(
  servers: ByServer<ServerUnderTest>,
  times: number,
): Promise<ByServer<number>[]> {
  const rounds: ByServer<number>[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    rounds.push(await measureInTurn(servers, (server) => server.send(times, PAYLOAD_BYTES)));
  }
  return rounds;
}

async function measureBehindProxy(
  measure: (server: ServerUnderTest) => Promise<number>,
): Promise<number> {
  const proxied = await startServerUnderTest('our-server.ts', ['behind-proxy'], 'proxy');
  try {
    return await measure(proxied);
  } finally {
    await proxied.stop();
  }
}

async function measureOverTls(
  measure: (server: ServerUnderTest) => Promise<number>,
): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-bench-'));
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const pair = await makeServerCertificate(await makeAuthority(2), ['127.0.0.1'], 1);
  await Promise.all([writeFile(certFile, pair.certificate), writeFile(keyFile, pair.key)]);
  const secure = await startServerUnderTest('our-server.ts', [certFile, keyFile], 'tls');
  try {
    return await measure(secure);
  } finally {
    await secure.stop();
    await rm(folder, { recursive: true, force: true });
  }
}
