import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { DATA_SERVERS } from '../deploy/engine.ts';
import { until } from '../until.ts';
import type { Container, Manifest, Volume, Workload } from './manifest.ts';

const execFileAsync = promisify(execFile);
/**
 * Servers that Carillon's services connect to, with the images that are built here: those of the manifests have digests. They
 * listen on the port that their command line names.
 */
const IMAGES_OF_DATA_SERVERS = new Map([
  ['mongodb', DATA_SERVERS.MONGO_IMAGE],
  ['valkey', DATA_SERVERS.VALKEY_IMAGE],
]);
/** Where the canary, which is no service, has to listen. */
const OPS_ADDRESS = '0.0.0.0:9000';

/** A pod that podman runs. */
export interface RunningPod {
  /** Port on the loopback address: of the ops server, or of the data server itself. */
  port: number;
  /** Addresses that it listens on, by variable: `API_LISTEN`. */
  addresses: Readonly<Record<string, string>>;
  readPid(): Promise<number>;
  /** Reads its limit, in bytes. */
  readMemory(): Promise<number>;
  stop(): Promise<void>;
}

/** Settings of a pod that replace the cluster's. */
export interface PodSettings {
  folder: string;
  /** Contents of the files, by name; a pod gets those that it names, or all. */
  secrets: Readonly<Record<string, string>>;
  /** The same of its ConfigMap. */
  authorities?: Readonly<Record<string, string>>;
  env?: Readonly<Record<string, string>>;
}

/**
 * Runs the pod of a workload by `podman kube play`, which waits for its init containers, on the network of the machine, and changes only what belongs to the
 * cluster: secrets and claimed volumes are folders (podman 4.3 does not decode the former), the listening addresses are
 * free ports, and named ports are gone, because podman publishes them.
 *
 * @param podman a podman whose storage has the images
 * @param env values that replace the manifest's
 */
export async function startPod(
  podman: string,
  workload: Workload,
  { folder, secrets, authorities = {}, env = {} }: PodSettings,
): Promise<RunningPod> {
  const { name, labels, pod } = workload;
  const port = await freePort();
  const volumes = [
    ...(pod.volumes ?? []).filter(({ secret, configMap }) => !secret && !configMap),
    ...(await makeFolders(join(folder, name), workload, { secrets, authorities })),
  ];
  const image = IMAGES_OF_DATA_SERVERS.get(name);
  const adaptAll = (all: readonly Container[]) =>
    Promise.all(
      all.map((container) =>
        adapt(
          { ...container, image: image ?? container.image },
          { port, isDataServer: image !== undefined, env },
        ),
      ),
    );
  const containers = await adaptAll(pod.containers);
  const initContainers = await adaptAll(pod.initContainers ?? []);
  const spec = { ...pod, restartPolicy: 'Never', initContainers, containers, volumes };
  const metadata = { name: `${name}-${process.pid}`, labels };
  const manifest: Manifest = { apiVersion: 'v1', kind: 'Pod', metadata, spec: spec as object };
  const path = join(folder, `${name}.json`);
  await writeFile(path, JSON.stringify(manifest));
  await execFileAsync(podman, ['kube', 'play', '--network', 'host', path]);
  const container = `${metadata.name}-${pod.containers[0]?.name}`;
  const read = async (format: string) =>
    (await execFileAsync(podman, ['inspect', '--format', format, container])).stdout.trim();
  const settings = containers.flatMap((container) => container.env ?? []);
  return {
    port,
    addresses: Object.fromEntries(settings.map(({ name: key, value = '' }) => [key, value])),
    readPid: async () => Number(await read('{{.State.Pid}}')),
    readMemory: async () => Number(await read('{{.HostConfig.Memory}}')),
    async stop() {
      await execFileAsync(podman, ['kube', 'down', path]);
    },
  };
}

/** Makes the folders of secrets, of ConfigMaps and of claimed volumes, which belong to the pod's user. */
async function makeFolders(
  folder: string,
  { pod, manifest }: Workload,
  { secrets, authorities }: Required<Pick<PodSettings, 'secrets' | 'authorities'>>,
): Promise<Volume[]> {
  const user = pod.securityContext?.runAsUser ?? 0;
  const withFiles = (pod.volumes ?? []).filter(({ secret, configMap }) => secret || configMap);
  const claims = (manifest.spec?.volumeClaimTemplates ?? []).map(({ metadata }) => metadata);
  for (const { name } of [...withFiles, ...claims]) {
    await mkdir(join(folder, name), { recursive: true });
    await chown(join(folder, name), user, user);
  }
  for (const { name, secret } of withFiles) {
    const isNamed = (key: string) => secret?.items?.some((item) => item.key === key) ?? true;
    for (const [key, value] of Object.entries(secret ? secrets : authorities)) {
      if (!isNamed(key)) continue;
      const path = join(folder, name, key);
      await writeFile(path, value);
      await chown(path, user, user);
      await chmod(path, 0o440);
    }
  }
  return [...withFiles, ...claims].map(({ name }) => ({
    name,
    hostPath: { path: join(folder, name), type: 'Directory' },
  }));
}

async function adapt(
  { ports = [], env = [], image, command, args, ...container }: Container,
  own: { port: number; isDataServer: boolean; env: Readonly<Record<string, string>> },
): Promise<Container> {
  const { port, isDataServer } = own;
  // Named ports, which probes use.
  const names = ports.map(({ name }) => name).filter((name) => isDataServer || name === 'ops');
  const probes = names.reduce(
    (text, name) => text.replaceAll(`"port":"${name}"`, `"port":${port}`),
    JSON.stringify(container),
  );
  const portOf = (variable: string) => (variable === 'OPS_LISTEN' ? port : freePort());
  return {
    ...JSON.parse(probes),
    image: image.startsWith('carillon/') ? `localhost/${image}` : image,
    imagePullPolicy: 'Never',
    ...(command && { command: isDataServer ? [...command, '--port', String(port)] : command }),
    ...(args && { args: args.map((arg) => arg.replace(OPS_ADDRESS, `127.0.0.1:${port}`)) }),
    env: await Promise.all(
      env.map(async ({ name, value = '' }) => ({
        name,
        value:
          name.endsWith('_LISTEN') && value !== 'off'
            ? `127.0.0.1:${await portOf(name)}`
            : (own.env[name] ?? value),
      })),
    ),
  };
}

/** Waits until the service of a pod reports that it is ready. */
export async function untilReady({ port }: RunningPod): Promise<void> {
  const isReady = async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
  await until(isReady, { timeoutMs: 40_000, what: 'the pod is ready' });
}
