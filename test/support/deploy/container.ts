import { existsSync, readFileSync } from 'node:fs';
import type { Engine } from './engine.ts';

/** Properties of a container's first process, as the kernel reports them. */
export interface ContainerProcess {
  pid: number;
  uid: number;
  /** The sets of capabilities, hexadecimal. */
  capabilities: string[];
  hasNoNewPrivileges: boolean;
  hasReadOnlyRoot: boolean;
  memoryLimit: number;
  memoryUsed: number;
}

/** Reads the process id of a container. */
export async function readPid(engine: Engine, container: string): Promise<number> {
  return Number(await engine.podman('inspect', '--format', '{{.State.Pid}}', container));
}

/** Reads the rights and limits of a running container from /proc and its cgroup. */
export async function inspectProcess(engine: Engine, container: string): Promise<ContainerProcess> {
  const pid = await readPid(engine, container);
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const fields = new Map(
    status.split('\n').map((line) => line.split(':\t') as [string, string | undefined]),
  );
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n');
  const root = mounts.findLast((line) => line.split(' ')[4] === '/') ?? '';
  return {
    pid,
    uid: Number(fields.get('Uid')?.split('\t')[0]),
    capabilities: ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map(
      (name) => fields.get(name) ?? 'missing',
    ),
    hasNoNewPrivileges: fields.get('NoNewPrivs') === '1',
    hasReadOnlyRoot: /^ro(,|$)/.test(root.split(' ')[5] ?? ''),
    ...readMemory(pid),
  };
}

function readMemory(pid: number): { memoryLimit: number; memoryUsed: number } {
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n');
  const own = (controller: string) =>
    groups.map((line) => line.split(':')).find((parts) => parts[1] === controller)?.[2] ?? '';
  const read = (path: string) => Number(readFileSync(path, 'utf8'));
  const first = `/sys/fs/cgroup/memory${own('memory')}`;
  if (existsSync(`${first}/memory.limit_in_bytes`)) {
    return {
      memoryLimit: read(`${first}/memory.limit_in_bytes`),
      memoryUsed: read(`${first}/memory.usage_in_bytes`),
    };
  }
  const second = `/sys/fs/cgroup${own('')}`;
  return {
    memoryLimit: read(`${second}/memory.max`),
    memoryUsed: read(`${second}/memory.current`),
  };
}
