// Reads and validates the environment variables of `npm start`.

import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { ROOT } from './paths.mjs';
import { UserError } from './terminal.mjs';

const DEFAULT_BASE = 4000;
const LAST_OFFSET = 99;
const LAST_PORT = 65_535;
const MAX_PROCESSES = 20;
/** The ops ports between its offset and the API's. */
const MAX_DASHBOARDS = 7;

/** Each port of a stack, as an offset from CARILLON_PORT_BASE. */
const PORT_OFFSETS = {
  api: 0,
  mqtt: 1,
  mqtts: 2,
  ws: 3,
  sandbox: 4,
  redis: 5,
  mongodb: 6,
  sandboxApns: 7,
  sandboxFcm: 8,
  sandboxWebPush: 9,
  console: 10,
  inspector: 12,
};

/** Without CARILLON_PORT_BASE, devices and debuggers connect to the well-known ports. */
const DEFAULT_PORTS = { mqtt: 1883, mqtts: 8883, ws: 8083, inspector: 9229 };

/**
 * The services: the variable that sets the number of processes, its maximum, and the offset of the first ops port.
 */
const SERVICE_SETTINGS = [
  { service: 'sandbox', count: 'CARILLON_SANDBOXES', most: 1, opsOffset: 11 },
  { service: 'dashboard', count: 'CARILLON_DASHBOARDS', most: MAX_DASHBOARDS, opsOffset: 13 },
  { service: 'api', count: 'CARILLON_APIS', opsOffset: 20 },
  { service: 'delivery-worker', count: 'CARILLON_DELIVERY_WORKERS', opsOffset: 40 },
  { service: 'scheduler', count: 'CARILLON_SCHEDULERS', opsOffset: 60 },
  { service: 'device-gateway', count: 'CARILLON_DEVICE_GATEWAYS', opsOffset: 80 },
];

/**
 * Reads and validates the environment.
 *
 * @param {NodeJS.ProcessEnv} env
 * @throws {UserError} with one line for each invalid value
 */
export function readSettings(env) {
  const errors = [];
  const reader = createReader(env, errors);
  const base = reader.integer('CARILLON_PORT_BASE', undefined, 1, LAST_PORT - LAST_OFFSET);
  const host = reader.address('CARILLON_HOST', '127.0.0.1');
  const ports = buildPorts(base);
  const settings = {
    home: resolve(reader.text('CARILLON_HOME', resolve(ROOT, '.carillon'))),
    host,
    // Redis, MongoDB and the ops ports have no password, so they listen on loopback only.
    privateHost: isLoopback(host) ? host : '127.0.0.1',
    ports,
    services: SERVICE_SETTINGS.map(({ service, count, most = MAX_PROCESSES, opsOffset }) => ({
      service,
      count: reader.integer(count, 1, 0, most),
      firstOpsPort: (base ?? DEFAULT_BASE) + opsOffset,
    })),
    inspect: reader.inspect('CARILLON_INSPECT', ports.inspector),
    demo: reader.oneOf('CARILLON_DEMO', '1', ['0', '1']) === '1',
    addressLimits: reader.oneOf('CARILLON_ADDRESS_LIMITS', 'on', ['on', 'off']),
    retentionSeconds: reader.integer('CARILLON_RETENTION_SECONDS', 172_800, 1, 31_536_000),
    redisUrl: reader.url('REDIS_URL', /^rediss?(\+sentinel|\+cluster)?:\/\/./),
    mongodbUri: reader.url('MONGODB_URI', /^mongodb(\+srv)?:\/\/./),
  };
  if (errors.length > 0) throw new UserError(errors.join('\n'));
  return settings;
}

function buildPorts(base) {
  const entries = Object.entries(PORT_OFFSETS).map(([name, offset]) => [
    name,
    base === undefined ? (DEFAULT_PORTS[name] ?? DEFAULT_BASE + offset) : base + offset,
  ]);
  return Object.fromEntries(entries);
}

function isLoopback(host) {
  return host === '::1' || host.startsWith('127.');
}

function createReader(env, errors) {
  // An empty value counts as unset, as `VARIABLE= npm start` and compose files expect.
  const text = (name, fallback) => env[name] || fallback;
  const check = (name, isValid, requirement, fallback) => {
    const value = text(name, undefined);
    if (value === undefined) return fallback;
    if (isValid(value)) return value;
    errors.push(`${name} is ${JSON.stringify(value)} and must be ${requirement}.`);
    return fallback;
  };
  return {
    text,
    oneOf: (name, fallback, values) =>
      check(name, (value) => values.includes(value), values.join(' or '), fallback),
    integer: (name, fallback, least, most) => {
      const isValid = (value) => /^\d+$/.test(value) && +value >= least && +value <= most;
      const value = check(name, isValid, `a whole number from ${least} to ${most}`, fallback);
      return value === undefined ? undefined : Number(value);
    },
    inspect: (name, fallbackPort) => {
      const services = SERVICE_SETTINGS.map(({ service }) => service);
      const isValid = (value) => {
        const [service, port, ...rest] = value.split(':');
        const isPort = port === undefined || (/^[1-9]\d*$/.test(port) && +port <= LAST_PORT);
        return services.includes(service) && isPort && rest.length === 0;
      };
      const value = check(name, isValid, `${services.join(', ')}, or one of them with :port`);
      if (value === undefined) return undefined;
      const [service, port = fallbackPort] = value.split(':');
      return { service, port: Number(port) };
    },
    address: (name, fallback) => {
      const isValid = (value) => value === 'localhost' || isIP(value) !== 0;
      const value = check(name, isValid, 'an IP address of this machine', fallback);
      return value === 'localhost' ? fallback : value;
    },
    url: (name, shape) => {
      const value = text(name, undefined);
      if (value === undefined || shape.test(value)) return value;
      // The value may contain a password, so it is not printed.
      errors.push(`${name} must look like ${name === 'REDIS_URL' ? 'redis' : 'mongodb'}://host…`);
      return undefined;
    },
  };
}
