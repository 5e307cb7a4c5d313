import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';

/** Amounts by name, such as `api cpu` (µs), `mongodb journal` or `device-gateway out` (bytes). */
export type Resources = Record<string, number>;

/** One load of the measuring run, and what it used for each of its units, without what the idle stack uses. */
export interface LoadPoint {
  /** Number of pushes, connections or rows that `used` is divided by. */
  units: number;
  /** Pushes a second; absent for a single large push. */
  perSecond?: number;
  /** Recipients of a push. */
  recipients?: number;
  /** Gateways that a batch of the push is dispatched to. */
  gateways?: number;
  used: Resources;
}

/** The part `deliveries`. */
export interface MeasuredDeliveries {
  /** Processes of each service. */
  processes: Record<string, number>;
  /** Amounts a second of the stack without devices. */
  idle: Resources;
  /** Amounts a second of each open connection that receives nothing. */
  link: Resources;
  points: Record<string, LoadPoint>;
  /** Open connections of a process to a server: the highest of the service's processes. */
  connections: Record<string, Record<string, number>>;
}

/** The part `links`: memory of one gateway process, in MB, by its number of connections. */
export interface MeasuredLinks {
  gatewayMb: { links: number; mb: number }[];
  redisBytesPerLink: number;
  /** Resident bytes of a connection without and with TLS, of a gateway without Redis and MongoDB. */
  plainBytes: number;
  tlsBytes: number;
}

/** The part `storage`: bytes on disk, data and indexes together. */
export interface MeasuredStorage {
  device: number;
  subscription: number;
  push: number;
  batchRecipient: number;
  inboxRow: number;
  /** Resident MB of a process of each service at rest. */
  restMb: Record<string, number>;
}

/** The part `providers`: CPU of a delivery-worker for one message, in µs. */
export type MeasuredProviders = Record<'apns' | 'fcm' | 'web-push', number>;

/** The kept results: every part has the time and the machine of its run. */
export interface Measured {
  deliveries: MeasuredDeliveries;
  links: MeasuredLinks;
  storage: MeasuredStorage;
  providers: MeasuredProviders;
}

export type PartName = keyof Measured;

/** A part in the file. */
interface KeptPart<T> {
  at: string;
  /** For example `2 cores of AMD EPYC`. */
  machine: string;
  result: T;
}

type KeptFile = { [Name in PartName]?: KeptPart<Measured[Name]> };

const FILE = fileURLToPath(new URL('measured.json', import.meta.url));

/** Reads the kept results. @throws Error that names a part which no run has measured */
export function readMeasured(file = FILE): Measured {
  const kept = readFile(file);
  const resultOf = <Name extends PartName>(name: Name): Measured[Name] => {
    const part = kept[name];
    if (part === undefined)
      throw new Error(`no costs are kept: npm run bench:model -- --measure ${name}`);
    return part.result;
  };
  return {
    deliveries: resultOf('deliveries'),
    links: resultOf('links'),
    storage: resultOf('storage'),
    providers: resultOf('providers'),
  };
}

/** Reads where and when a part was measured. */
export function readOrigin(name: PartName, file = FILE): { at: string; machine: string } {
  const part = readFile(file)[name];
  if (part === undefined) throw new Error(`the part ${name} was not measured`);
  return part;
}

/** Writes one part of the kept results; the others stay. */
export function keepPart<Name extends PartName>(
  name: Name,
  result: Measured[Name],
  file = FILE,
): void {
  const at = new Date().toISOString();
  const machine = `${cpus().length} cores of ${cpus()[0]?.model ?? 'unknown'}`;
  const kept: KeptFile = { ...readFile(file), [name]: { at, machine, result } };
  writeFileSync(file, `${JSON.stringify(kept, roundValue, 2)}\n`);
}

function readFile(file: string): KeptFile {
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as KeptFile) : {};
}

/** Four digits are more than a measurement repeats. */
function roundValue(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value)
    ? Number(value.toPrecision(4))
    : value;
}
