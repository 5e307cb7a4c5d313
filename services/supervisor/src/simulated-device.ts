import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { ChildPlan } from './child-plan.ts';
import type { Home } from './home.ts';

const CONNECT_MS = 10_000;
const connected = z.object({ event: z.literal('connected'), token: z.string() });

/** A device of the demonstration, to send to. */
export interface SimulatedDevice {
  plan: ChildPlan;
  /** The file with one JSON line for each push that arrived. */
  log: string;
  /** Its token once it is connected; undefined when that takes longer than 10 s. */
  token(): Promise<string | undefined>;
}

/** Plans the device: `carillon simulate`, kept running like a service. */
export function planSimulatedDevice(
  root: string,
  home: Home,
  app: string,
  env: NodeJS.ProcessEnv,
): SimulatedDevice {
  const log = home.log('device');
  const found = Promise.withResolvers<string>();
  let line = '';
  const onOutput = (text: Buffer) => {
    appendFileSync(log, text);
    line += text;
    const lines = line.split('\n');
    line = lines.pop() ?? '';
    for (const one of lines) {
      const token = tokenIn(one);
      if (token !== undefined) found.resolve(token);
    }
  };
  const args = ['--app', app, '--devices', '1', '--platform', 'electron'];
  return {
    log,
    token: () => Promise.race([found.promise, sleep(CONNECT_MS, undefined, { ref: false })]),
    plan: {
      service: 'simulated device',
      index: 0,
      command: process.execPath,
      args: [
        join(root, 'services/cli/src/main.ts'),
        '--json',
        'simulate',
        ...args,
        '--state',
        home.at('device.json'),
      ],
      cwd: root,
      env,
      log,
      leashed: true,
      sockets: [],
      // It is a guest: whatever becomes of it, the stack runs.
      patience: Number.POSITIVE_INFINITY,
      onOutput,
      isReady: async () => true,
    },
  };
}

function tokenIn(line: string): string | undefined {
  try {
    return connected.safeParse(JSON.parse(line)).data?.token;
  } catch {
    return undefined;
  }
}
