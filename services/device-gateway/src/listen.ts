import { type AcceptDeps, type Entrance, openEntrance } from './accept.ts';
import type { Where } from './listening-sockets.ts';
import { createTlsDoor, type TlsFiles } from './over-tls.ts';
import { createWebSocketDoor } from './over-websocket.ts';
import type { Stranger } from './strangers.ts';

/** Where devices come in; a transport that is absent isn't offered. */
export interface Addresses {
  mqtt?: Where | undefined;
  mqtts?: Where | undefined;
  ws?: Where | undefined;
  /** Needed for `mqtts`. */
  tls?: TlsFiles | undefined;
}

export interface ListenDeps extends AcceptDeps {
  /** Takes over where MQTT begins. */
  serve(stranger: Stranger): void;
  /** New TLS files are in force, or can't be used. */
  certificate(failure?: unknown): void;
}

/** Listens for devices on all transports. */
export interface Listening {
  /** Ports that were found free where the address said 0; 0 for what isn't offered. */
  ports: Record<'mqtt' | 'mqtts' | 'ws', number>;
  /** Links that were accepted and not begun. */
  waiting(): number;
  /** Listens no more; links stay. */
  stop(): void;
}

export async function listen(at: Addresses, deps: ListenDeps): Promise<Listening> {
  const { serve } = deps;
  const entrances: Entrance[] = [];
  const doors: { stop(): void }[] = [];

  async function open(where: Where | undefined, enter: Parameters<typeof openEntrance>[2]) {
    if (where === undefined) return 0;
    const entrance = await openEntrance(where, deps, enter);
    entrances.push(entrance);
    return entrance.port;
  }

  async function openSecure(): Promise<number> {
    if (at.mqtts === undefined) return 0;
    if (at.tls === undefined) throw new Error('MQTT over TLS needs a certificate and its key');
    const door = createTlsDoor(at.tls, { secured: serve, reloaded: deps.certificate });
    doors.push(door);
    return open(at.mqtts, door.enter);
  }

  async function openWebSocket(): Promise<number> {
    const door = createWebSocketDoor(serve);
    doors.push(door);
    return open(at.ws, door.enter);
  }

  const ports = {
    mqtt: await open(at.mqtt, (_socket, stranger) => serve(stranger)),
    mqtts: await openSecure(),
    ws: await openWebSocket(),
  };
  return {
    ports,
    waiting: () => entrances.reduce((sum, entrance) => sum + entrance.waiting(), 0),
    stop() {
      for (const part of [...entrances, ...doors]) part.stop();
    },
  };
}
