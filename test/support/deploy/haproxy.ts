import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { until } from '../until.ts';
import { ROOT } from './engine.ts';
import type { Replica } from './replicas.ts';

/** Statistics of haproxy about a server or a whole backend, by the name of the column. */
export type ProxyStatistics = Record<string, string>;

/** A running haproxy with deploy/haproxy.cfg. */
export interface HaProxy {
  httpsPort: number;
  mqttPort: number;
  /** Reads the statistics of a server, or with `BACKEND` of all servers of a backend. */
  read(backend: string, server: string): Promise<ProxyStatistics>;
  /** Waits until a server gets connections. */
  untilUp(backend: string, server: string): Promise<unknown>;
  /** Waits until a server has served so many more requests: by then its code is compiled. */
  untilWarm(backend: string, server: string, requests: number): Promise<unknown>;
  stop(): Promise<void>;
}

/**
 * Starts haproxy in front of replicas.
 *
 * @param secrets folder that create-secrets.mjs has filled
 */
export async function startProxy(replicas: readonly Replica[], secrets: string): Promise<HaProxy> {
  const [https, mqtt, statistics] = [await freePort(), await freePort(), await freePort()];
  const servers = replicas.flatMap(({ name, port, opsPort }) => {
    const variable = name.replaceAll('-', '_').toUpperCase();
    return [
      [variable, `127.0.0.1:${port}`],
      [`${variable}_OPS`, String(opsPort)],
    ];
  });
  const env = {
    ...{ PATH: process.env.PATH, CERTIFICATE: join(secrets, 'tls/server.pem') },
    ...{ HTTPS_LISTEN: `127.0.0.1:${https}`, MQTT_LISTEN: `127.0.0.1:${mqtt}` },
    ...{ STATISTICS_LISTEN: `127.0.0.1:${statistics}`, ...Object.fromEntries(servers) },
  };
  const config = join(ROOT, 'deploy/haproxy.cfg');
  const child = spawn('haproxy', ['-db', '-f', config], { env, stdio: 'inherit' });
  const exited = once(child, 'exit');

  async function read(backend: string, server: string): Promise<ProxyStatistics> {
    const text = await (await fetch(`http://127.0.0.1:${statistics}/;csv`)).text();
    const [names = [], ...rows] = text.split('\n').map((line) => line.split(','));
    const row = rows.find((cells) => cells[0] === backend && cells[1] === server) ?? [];
    return Object.fromEntries(names.map((name, index) => [name, row[index] ?? '']));
  }

  return {
    httpsPort: https,
    mqttPort: mqtt,
    read,
    untilUp(backend, server) {
      const isUp = async () => (await read(backend, server)).status === 'UP';
      return until(isUp, { timeoutMs: 20_000, everyMs: 100, what: `haproxy uses ${server}` });
    },
    async untilWarm(backend, server, requests) {
      const count = async () => Number((await read(backend, server)).stot);
      const before = await count();
      const isWarm = async () => (await count()) - before >= requests;
      return until(isWarm, { timeoutMs: 60_000, everyMs: 250, what: `${server} is warm` });
    },
    async stop() {
      child.kill('SIGTERM');
      // It would wait for the open connections.
      child.kill('SIGKILL');
      await exited;
    },
  };
}
