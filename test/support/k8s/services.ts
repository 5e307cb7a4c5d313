import { globSync, readFileSync } from 'node:fs';
import { mongodbEnv } from '../../../packages/runtime/src/env.ts';
import { environment as api } from '../../../services/api/src/environment.ts';
import { environmentSchema as cli } from '../../../services/cli/src/stack.ts';
import { environment as dashboard } from '../../../services/dashboard/src/environment.ts';
import { environment as deliveryWorker } from '../../../services/delivery-worker/src/environment.ts';
import { environment as deviceGateway } from '../../../services/device-gateway/src/environment.ts';
import { environment as sandbox } from '../../../services/sandbox/src/environment.ts';
import { environment as scheduler } from '../../../services/scheduler/src/environment.ts';
import { ROOT } from './render.ts';

/** Schema of a variable. */
interface Setting {
  safeParse(value: unknown): { success: boolean; data?: unknown };
}

const CANARY_SETTINGS = {
  CARILLON_API: true,
  CARILLON_API_KEY: true,
  CARILLON_APP: true,
  CARILLON_MQTT: true,
} as const;

/** Settings of each service, by the label app.kubernetes.io/name of its pods. */
export const SETTINGS: Readonly<Record<string, Readonly<Record<string, Setting>>>> = {
  api: api.shape,
  'delivery-worker': deliveryWorker.shape,
  scheduler: scheduler.shape,
  'device-gateway': deviceGateway.shape,
  dashboard: dashboard.shape,
  migrate: mongodbEnv,
  sandbox: sandbox.shape,
  // The command line finds the rest in a stack of its own machine.
  canary: cli.pick(CANARY_SETTINGS).required().shape,
};

/** Returns the schema of a variable, or of NAME for NAME_FILE; undefined if the service doesn't know it. */
export function findSetting(service: string, variable: string): Setting | undefined {
  const settings = SETTINGS[service] ?? {};
  const stem = variable.replace(/_FILE$/, '');
  return settings[variable] ?? settings[stem];
}

/** Lists the variables that a service needs and that have no default. */
export function findRequiredVariables(service: string): string[] {
  return Object.entries(SETTINGS[service] ?? {})
    .filter(([, setting]) => !setting.safeParse(undefined).success)
    .map(([name]) => name);
}

/** Reads the names of all metrics from the sources. */
export function readMetricNames(): Set<string> {
  const sources = globSync(['services/*/src/**/*.ts', 'packages/*/src/**/*.ts'], { cwd: ROOT });
  const names = sources.flatMap((path) => {
    const source = readFileSync(`${ROOT}${path}`, 'utf8');
    return [...source.matchAll(/['"`](carillon_[a-z0-9_]+)['"`]/g)].map(([, name = '']) => name);
  });
  return new Set(names);
}

/** Reads the highest memory of each service, in MB, from the measurements in docs/performance.md. */
export function readMeasuredMemory(): Map<string, number> {
  const text = readFileSync(`${ROOT}docs/performance.md`, 'utf8');
  const [, line = ''] =
    /The highest memory of a process in any part: ([\s\S]*?)\n\n/.exec(text) ?? [];
  return new Map(
    [...line.matchAll(/([A-Za-z-]+) (\d+)/g)].map(([, service = '', size]) => [
      service,
      Number(size),
    ]),
  );
}
