import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { ROOT } from '../first-run/test-home.ts';
import { createTemporaryFolder } from '../temporary-folder.ts';
import { type PollOptions, until } from '../until.ts';

/** Debian has it in its package of that name. */
const COMMAND = 'prometheus';
const RULES = 'k8s/components/monitoring/rules/*.yaml';
/** Every duration of the rules is shorter by this factor, so that a fault of minutes takes seconds. */
const SHORTER_BY = 15;
/** Shorter ranges would contain too few scrapes for a rate on a busy machine. */
const MIN_RANGE_SECONDS = 8;
const UNIT_SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600 };

/** An alert, as Prometheus reports it. */
export interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: 'pending' | 'firing';
}

/** A Prometheus that scrapes each second and has the rules with shorter durations. */
export interface Prometheus {
  /** Scrapes these processes from now on, each given by the base URL of its ops server. */
  setTargets(ops: readonly string[]): void;
  readAlerts(): Promise<Alert[]>;
  /** Waits until an alert fires, or until it fires no more. */
  untilFiring(name: string, pollOptions?: PollOptions): Promise<Alert>;
  untilQuiet(name: string, pollOptions?: PollOptions): Promise<void>;
  /** Returns the number of series that a query returns. Throws when it is invalid. */
  countSeries(query: string): Promise<number>;
  stop(): Promise<void>;
}

/**
 * Shortens the durations of a file of rules: `for: 5m`, ranges (`[5m]`), subqueries (`[10m:15s]`) and offsets. A range
 * stays at {@link MIN_RANGE_SECONDS} or more. Thresholds stay as they are, also those in seconds.
 */
function shortenDurations(rules: string): string {
  const shorten = (text: string, min: number) => {
    const [, number, unit = ''] = /^(\d+)([smh])$/.exec(text) ?? [];
    const seconds = Number(number) * (UNIT_SECONDS[unit] ?? Number.NaN);
    return `${Math.max(min, Math.ceil(seconds / SHORTER_BY))}s`;
  };
  return rules
    .replace(/\bfor: (\w+)$/gm, (_, text) => `for: ${shorten(text, 1)}`)
    .replace(/\[(\w+)\]/g, (_, text) => `[${shorten(text, MIN_RANGE_SECONDS)}]`)
    .replace(/\[(\w+):\w+\]/g, (_, text) => `[${shorten(text, MIN_RANGE_SECONDS)}:1s]`)
    .replace(/\boffset (\w+)/g, (_, text) => `offset ${shorten(text, MIN_RANGE_SECONDS)}`);
}

/** Starts Prometheus on a free port of this machine, with a folder of its own. */
export async function startPrometheus(): Promise<Prometheus> {
  const folder = createTemporaryFolder();
  for (const path of globSync(RULES, { cwd: ROOT }))
    writeFileSync(
      join(folder, `rules-${basename(path)}`),
      shortenDurations(readFileSync(join(ROOT, path), 'utf8')),
    );
  const targets = join(folder, 'targets.json');
  const setTargets = (ops: readonly string[]) =>
    writeFileSync(targets, JSON.stringify([{ targets: ops.map((url) => new URL(url).host) }]));
  setTargets([]);
  writeFileSync(join(folder, 'prometheus.yml'), config(targets));
  const url = `http://127.0.0.1:${await freePort()}`;
  const child = spawnPrometheus(folder, url);
  await until(async () => (await fetch(`${url}/-/ready`)).ok, { timeoutMs: 30_000 });

  async function query<T>(path: string): Promise<T> {
    const { data, error } = (await (await fetch(`${url}/api/v1/${path}`)).json()) as {
      data: T;
      error?: string;
    };
    if (error !== undefined) throw new Error(`${path}: ${error}`);
    return data;
  }
  const readAlerts = async () => (await query<{ alerts: Alert[] }>('alerts')).alerts;
  const findFiring = async (name: string) =>
    (await readAlerts()).find(
      ({ labels, state }) => labels.alertname === name && state === 'firing',
    );
  return {
    setTargets,
    readAlerts,
    untilFiring: (name, pollOptions) =>
      until(() => findFiring(name), {
        timeoutMs: 120_000,
        everyMs: 250,
        what: `${name} fires`,
        ...pollOptions,
      }),
    async untilQuiet(name, pollOptions) {
      const isQuiet = async () => (await findFiring(name)) === undefined;
      const what = `${name} stops`;
      await until(isQuiet, { timeoutMs: 180_000, everyMs: 250, what, ...pollOptions });
    },
    async countSeries(text) {
      const { result } = await query<{ result: unknown[] }>(
        `query?query=${encodeURIComponent(text)}`,
      );
      return result.length;
    },
    async stop() {
      const ended = once(child, 'exit');
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill('SIGTERM');
      await ended;
    },
  };
}

function config(targets: string): string {
  return `global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: [rules-*.yaml]
scrape_configs:
  - job_name: carillon
    file_sd_configs:
      - files: [${targets}]
        refresh_interval: 1s
`;
}

function spawnPrometheus(folder: string, url: string): ChildProcess {
  return spawn(
    COMMAND,
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=${new URL(url).host}`,
      '--log.level=error',
    ],
    { cwd: folder, stdio: 'ignore' },
  );
}
