import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import type { Servers } from './servers.ts';

/** Description of the machine. */
export interface Machine {
  cpu: string;
  cores: number;
  memoryGb: number;
  system: string;
  node: string;
  mongodb: string;
  redis: string;
  /** Load average of the minute before. */
  loadBefore: number;
}

/** Describes this machine and the servers of a stack. */
export async function describeMachine({ mongo, redis }: Servers): Promise<Machine> {
  const [cpu] = cpus();
  const { version } = await mongo.command({ buildInfo: 1 });
  const info = await redis.info('server');
  return {
    cpu: cpu?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    // Without the part that names a vendor's build.
    system: `${distribution()}, Linux ${release().split('.').slice(0, 2).join('.')}`,
    node: process.versions.node,
    mongodb: String(version),
    redis: /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown',
    loadBefore: loadavg()[0] ?? Number.NaN,
  };
}

function distribution(): string {
  try {
    const text = readFileSync('/etc/os-release', 'utf8');
    return /^PRETTY_NAME="(.*)"$/m.exec(text)?.[1] ?? 'Linux';
  } catch {
    return 'Linux';
  }
}
