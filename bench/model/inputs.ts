import { parseArgs } from 'node:util';

/** A load, and the permitted use of the machines. */
export interface Inputs {
  /** Devices that hold a connection. */
  connected: number;
  /** Devices in the database. */
  registered: number;
  /** Pushes a second, at the peak. */
  pushes: number;
  /** Recipients of a push. */
  fanOut: number;
  /** Share of recipients that are offline and get the push at their next connect. */
  away: number;
  /** Share of recipients that are reached through a provider. */
  provider: number;
  channel: 'apns' | 'fcm' | 'web-push';
  /** Bytes of a push's payload. */
  payload: number;
  topics: number;
  linksPerGateway: number;
  tls: boolean;
  sessionHours: number;
  awayHours: number;
  retentionDays: number;
  average: number;
  utilisation: number;
  mongodbCores: number;
  journalMb: number;
  redisClients: number;
  mongodbConnections: number;
}

interface Input {
  /** Absent: it must be given, or follows from the others. */
  value?: number;
  min: number;
  max?: number;
  help: string;
}

/** The numbers that the program takes, with the value used if one is not given. */
const NUMBERS = {
  connected: { min: 0, help: 'devices that hold an MQTT connection' },
  pushes: { min: 0, help: 'pushes a second, at the peak' },
  'fan-out': { min: 1, value: 1, help: 'recipients of a push' },
  registered: { min: 0, help: 'devices in the database; twice the connected ones if not given' },
  away: { min: 0, max: 1, value: 0, help: 'share of recipients that are offline' },
  provider: { min: 0, max: 1, value: 0, help: 'share of recipients reached through a provider' },
  payload: { min: 0, value: 200, help: 'bytes of a payload, for the disk' },
  topics: { min: 0, value: 2, help: 'subscriptions of a device' },
  'links-per-gateway': { min: 1, value: 12_000, help: 'connections planned for a gateway' },
  'session-hours': { min: 0.01, value: 6, help: 'hours that a connection lasts' },
  'away-hours': { min: 0, value: 24, help: 'hours until an offline device connects' },
  'retention-days': { min: 0, value: 2, help: 'days that a finished push stays' },
  average: {
    min: 0,
    max: 1,
    value: 0.4,
    help: 'pushes of an average second, as a share of the peak',
  },
  utilisation: { min: 0.05, max: 1, value: 0.7, help: 'share of a core that may be used' },
  'mongodb-cores': { min: 1, value: 16, help: "cores of MongoDB's primary" },
  'journal-mb': { min: 1, value: 200, help: 'MB a second that its disk can sync' },
  'redis-clients': { min: 1, value: 10_000, help: 'maxclients of a Redis server' },
  'mongodb-connections': { min: 1, value: 51_200, help: 'connections that MongoDB accepts' },
} as const satisfies Record<string, Input>;

const CHANNELS = ['apns', 'fcm', 'web-push'] as const;

type NumberName = keyof typeof NUMBERS;

/** Returns a line of help for each input. */
export function describeInputs(): string {
  const numbers = Object.entries<Input>(NUMBERS).map(([name, { help, value }]) =>
    value === undefined ? `--${name}: ${help}` : `--${name} ${value}: ${help}`,
  );
  return [
    ...numbers,
    `--channel ${CHANNELS[0]}: the provider, of ${CHANNELS.join(', ')}`,
    '--no-tls: connections without TLS, or with TLS terminated before the gateways',
  ].join('\n');
}

/**
 * Reads the inputs.
 *
 * @throws Error that names each input that is unknown, missing, no number, out of its range, or contradicts another
 */
export function readInputs(args: readonly string[]): Inputs {
  const given = parse(args);
  const errors = [...given.errors];
  const read = (name: NumberName): number => {
    const { min, max = Number.POSITIVE_INFINITY, ...input }: Input = NUMBERS[name];
    const text = given.values[name];
    if (text === undefined) {
      if (input.value === undefined) errors.push(`--${name} is missing`);
      return input.value ?? 0;
    }
    const value = text.trim() === '' ? Number.NaN : Number(text);
    if (!Number.isFinite(value)) errors.push(`--${name} is no number: ${text}`);
    else if (value < min) errors.push(`--${name} is ${value}, less than ${min}`);
    else if (value > max) errors.push(`--${name} is ${value}, more than ${max}`);
    return value;
  };
  const connected = read('connected');
  const channel = CHANNELS.find((name) => name === (given.values.channel ?? CHANNELS[0]));
  if (channel === undefined) errors.push(`--channel is none of ${CHANNELS.join(', ')}`);
  const inputs: Inputs = {
    connected,
    registered: given.values.registered === undefined ? 2 * connected : read('registered'),
    pushes: read('pushes'),
    fanOut: read('fan-out'),
    away: read('away'),
    provider: read('provider'),
    channel: channel ?? CHANNELS[0],
    payload: read('payload'),
    topics: read('topics'),
    linksPerGateway: read('links-per-gateway'),
    tls: !given.isWithoutTls,
    sessionHours: read('session-hours'),
    awayHours: read('away-hours'),
    retentionDays: read('retention-days'),
    average: read('average'),
    utilisation: read('utilisation'),
    mongodbCores: read('mongodb-cores'),
    journalMb: read('journal-mb'),
    redisClients: read('redis-clients'),
    mongodbConnections: read('mongodb-connections'),
  };
  errors.push(...findContradictions(inputs));
  if (errors.length > 0) throw new Error(errors.join('\n'));
  return inputs;
}

function findContradictions({ away, provider, connected, registered, fanOut, pushes }: Inputs) {
  const errors: string[] = [];
  if (away + provider > 1) errors.push('--away and --provider are more than all recipients');
  if (registered < connected) errors.push('--registered is less than --connected');
  if (pushes > 0 && fanOut > registered) errors.push('--fan-out is more than --registered');
  if (!Number.isInteger(fanOut)) errors.push('--fan-out is no whole number');
  if (pushes > 0 && connected === 0 && away + provider < 1)
    errors.push('no device is connected: --away and --provider must be all recipients');
  return errors;
}

function parse(args: readonly string[]): {
  values: Partial<Record<string, string>>;
  isWithoutTls: boolean;
  errors: string[];
} {
  const known = new Set([...Object.keys(NUMBERS), 'channel']);
  const options = Object.fromEntries([...known].map((name) => [name, { type: 'string' as const }]));
  const parsed = parseArgs({
    args: [...args],
    strict: false,
    tokens: true,
    options: { ...options, 'no-tls': { type: 'boolean' } },
  });
  const unknown = parsed.tokens.flatMap((token) =>
    token.kind === 'option' && token.name !== 'no-tls' && !known.has(token.name)
      ? [`there is no input --${token.name}`]
      : [],
  );
  // The value of an unknown option is read as a separate argument.
  const words = unknown.length > 0 ? [] : parsed.positionals.map((word) => `no input: ${word}`);
  const values = Object.fromEntries(
    Object.entries(parsed.values).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name, value]] : [],
    ),
  );
  const isWithoutTls = parsed.values['no-tls'] === true;
  return { values, isWithoutTls, errors: [...unknown, ...words] };
}
