import { existsSync, readFileSync } from 'node:fs';
import type { Engine } from './engine.ts';

/** Reads the process id of a container. */
export async function readPid(engine: Pick<Engine, 'podman'>, container: string): Promise<number> {
  return Number(await engine.podman('inspect', '--format', '{{.State.Pid}}', container));
}

/** Reads the rights of a process, as the kernel reports them: fields of its status, the capabilities hexadecimal. */
export function readRights(pid: number) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const field = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1];
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n');
  const root = mounts.findLast((line) => line.split(' ')[4] === '/') ?? '';
  return {
    uids: field('Uid')?.split('\t').map(Number),
    capabilities: ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map(field),
    noNewPrivileges: field('NoNewPrivs'),
    seccomp: field('Seccomp'),
    hasReadOnlyRoot: /^ro(,|$)/.test(root.split(' ')[5] ?? ''),
  };
}

/** What {@link readRights} returns for a process that may do nothing, besides its users. */
export const NO_RIGHTS = {
  capabilities: Array(5).fill('0'.repeat(16)),
  ...{ noNewPrivileges: '1', hasReadOnlyRoot: true },
};

/** Reads the limit of the memory of a process, and what is used of it, from its cgroup. */
export function readMemory(pid: number): { limit: number; used: number } {
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n');
  const own = (controller: string) =>
    groups.map((line) => line.split(':')).find((parts) => parts[1] === controller)?.[2] ?? '';
  const read = (path: string) => Number(readFileSync(path, 'utf8'));
  const first = `/sys/fs/cgroup/memory${own('memory')}`;
  if (existsSync(`${first}/memory.limit_in_bytes`))
    return {
      limit: read(`${first}/memory.limit_in_bytes`),
      used: read(`${first}/memory.usage_in_bytes`),
    };
  const second = `/sys/fs/cgroup${own('')}`;
  return { limit: read(`${second}/memory.max`), used: read(`${second}/memory.current`) };
}
