// The ports of a stack: seen to be free before any long set-up, and the shared ones opened here.

import { createServer } from 'node:net';
import { Refusal } from './say.mjs';

const BACKLOG = 4096;

/** What the sandbox listens on by itself; like Redis and MongoDB it is for this machine only. */
const SANDBOX = [
  { name: 'sandbox', what: 'the sandbox' },
  { name: 'sandboxApns', what: "the sandbox's APNs" },
  { name: 'sandboxFcm', what: "the sandbox's FCM" },
  { name: 'sandboxWebPush', what: "the sandbox's Web Push service" },
];

/**
 * The public ports that the supervisor holds for its children, so that a service which is
 * restarted loses no connection: those who connect meanwhile wait in the kernel's queue.
 */
const SHARED = [
  { name: 'api', what: 'the API' },
  { name: 'mqtt', what: 'MQTT' },
  { name: 'mqtts', what: 'MQTT over TLS' },
  { name: 'ws', what: 'MQTT over WebSocket' },
];

/** Throws a Refusal that names the first port of the stack which is taken. */
export async function checkPorts(settings) {
  for (const wanted of wantedPorts(settings)) {
    const server = await listen(wanted);
    await new Promise((resolve) => server.close(resolve));
  }
}

function wantedPorts(settings) {
  const { host, privateHost, ports } = settings;
  const wanted = [
    ...SHARED.map(({ name, what }) => ({ host, port: ports[name], what })),
    ...SANDBOX.map(({ name, what }) => ({ host: privateHost, port: ports[name], what })),
  ];
  if (settings.redisUrl === undefined) {
    wanted.push({ host: privateHost, port: ports.redis, what: 'Redis' });
  }
  if (settings.mongodbUri === undefined) {
    wanted.push({ host: privateHost, port: ports.mongodb, what: 'MongoDB' });
  }
  for (const { service, count, firstOpsPort } of settings.services) {
    for (let index = 0; index < count; index += 1) {
      const what = `the ops port of ${service} ${index}`;
      wanted.push({ host: privateHost, port: firstOpsPort + index, what });
    }
  }
  return wanted;
}

/**
 * Opens the shared ports and calls `use` with their file descriptors by name. They are closed here
 * when it returns; who has inherited them by then holds them.
 *
 * From the first listen to the close the event loop never polls (an IP address is looked up in a
 * microtask), so this process accepts no connection, and none is lost.
 *
 * @template T
 * @param {(descriptors: Record<string, number>) => T} use
 * @returns {Promise<T>}
 */
export async function withSharedSockets({ host, ports }, use) {
  const servers = [];
  try {
    const descriptors = {};
    for (const { name, what } of SHARED) {
      const server = await listen({ host, port: ports[name], what });
      servers.push(server);
      // Node has no public name for the descriptor of a listening server.
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
    server.once('error', (error) => reject(portRefusal(error, { host, port, what })));
    server.listen({ host, port, backlog: BACKLOG }, () => resolve(server));
  });
}

function portRefusal(error, { host, port, what }) {
  if (error.code === 'EADDRINUSE') {
    return new Refusal(
      `Port ${port} on ${host}, wanted for ${what}, is taken by another program. Start on other ports with CARILLON_PORT_BASE=21000 npm start, or on another address with CARILLON_HOST=127.0.0.2 npm start.`,
    );
  }
  if (error.code === 'EADDRNOTAVAIL') {
    return new Refusal(`CARILLON_HOST is ${host}, which is not an address of this machine.`);
  }
  if (error.code === 'EACCES') {
    return new Refusal(
      `Port ${port} on ${host}, wanted for ${what}, is not open to this user. Choose higher ones with CARILLON_PORT_BASE=21000 npm start.`,
    );
  }
  return error;
}
