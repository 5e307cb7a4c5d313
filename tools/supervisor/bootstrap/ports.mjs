// Checks that the ports of a stack are free before any long set-up step, and opens the shared ones.

import { createServer } from 'node:net';
import { UserError } from './terminal.mjs';

const BACKLOG = 4096;

/** The ports that the sandbox opens itself. Like Redis and MongoDB, it listens on loopback only. */
const SANDBOX_PORTS = [
  { name: 'sandbox', what: 'the sandbox' },
  { name: 'sandboxApns', what: "the sandbox's APNs" },
  { name: 'sandboxFcm', what: "the sandbox's FCM" },
  { name: 'sandboxWebPush', what: "the sandbox's Web Push service" },
];

/**
 * The public ports. The supervisor keeps their sockets open, so that a service restart refuses no
 * connection: new connections wait in the kernel's queue.
 */
const SHARED_PORTS = [
  { name: 'api', what: 'the API' },
  { name: 'mqtt', what: 'MQTT' },
  { name: 'mqtts', what: 'MQTT over TLS' },
  { name: 'ws', what: 'MQTT over WebSocket' },
  { name: 'console', what: 'the console' },
];

/**
 * Checks that every port of the stack is free.
 *
 * @throws {UserError} that names the first port in use
 */
export async function checkPorts(settings) {
  for (const required of listRequiredPorts(settings)) {
    const server = await listen(required);
    await new Promise((resolve) => server.close(resolve));
  }
}

function listRequiredPorts(settings) {
  const { host, privateHost, ports } = settings;
  const required = [
    ...SHARED_PORTS.map(({ name, what }) => ({ host, port: ports[name], what })),
    ...SANDBOX_PORTS.map(({ name, what }) => ({ host: privateHost, port: ports[name], what })),
  ];
  if (settings.redisUrl === undefined) {
    required.push({ host: privateHost, port: ports.redis, what: 'Redis' });
  }
  if (settings.mongodbUri === undefined) {
    required.push({ host: privateHost, port: ports.mongodb, what: 'MongoDB' });
  }
  if (settings.inspect !== undefined) {
    const what = `the inspector of ${settings.inspect.service}`;
    required.push({ host: privateHost, port: settings.inspect.port, what });
  }
  for (const { service, count, firstOpsPort } of settings.services) {
    for (let index = 0; index < count; index += 1) {
      const what = `the ops port of ${service} ${index}`;
      required.push({ host: privateHost, port: firstOpsPort + index, what });
    }
  }
  return required;
}

/**
 * Opens the shared ports and calls `use` with their file descriptors by name. Closes them when `use`
 * returns; child processes spawned by then have inherited them.
 *
 * The event loop does not poll between the first listen and the close (an IP address is resolved in a
 * microtask), so this process accepts no connection and none is lost.
 *
 * @template T
 * @param {(descriptors: Record<string, number>) => T} use
 * @returns {Promise<T>}
 */
export async function withSharedSockets({ host, ports }, use) {
  const servers = [];
  try {
    const descriptors = {};
    for (const { name, what } of SHARED_PORTS) {
      const server = await listen({ host, port: ports[name], what });
      servers.push(server);
      // Node has no public API for the descriptor of a listening server.
      descriptors[name] = server._handle.fd;
    }
    return use(descriptors);
  } finally {
    for (const server of servers) server.close();
  }
}

function listen({ host, port, what }) {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error) => reject(createPortError(error, { host, port, what })));
    server.listen({ host, port, backlog: BACKLOG }, () => resolve(server));
  });
}

function createPortError(error, { host, port, what }) {
  if (error.code === 'EADDRINUSE') {
    return new UserError(
      `Port ${port} on ${host}, needed for ${what}, is in use by another program. Use other ports with CARILLON_PORT_BASE=21000 npm start, or another address with CARILLON_HOST=127.0.0.2 npm start.`,
    );
  }
  if (error.code === 'EADDRNOTAVAIL') {
    return new UserError(`CARILLON_HOST is ${host}, which is not an address of this machine.`);
  }
  if (error.code === 'EACCES') {
    return new UserError(
      `This user may not listen on port ${port} of ${host}, needed for ${what}. Use higher ports with CARILLON_PORT_BASE=21000 npm start.`,
    );
  }
  return error;
}
