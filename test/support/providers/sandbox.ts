/** Something that a provider was asked, as the sandbox has noted it. */
export interface Received {
  n: number;
  at: number;
  channel: 'apns' | 'fcm' | 'web-push';
  /** Provider token, or endpoint. */
  to: string;
  /** Our push's id. */
  push: string | null;
  status: number | null;
  headers: Record<string, string>;
  payload: Record<string, unknown> | null;
  acked?: number;
}

export interface ChannelCounts {
  requests: number;
  accepted: number;
  connections: number;
}

export interface Counts extends ChannelCounts {
  byChannel: Record<string, ChannelCounts>;
  doubles: number;
}

export type Step = Record<string, unknown>;

/** What the sandbox takes as credentials, and where it is. */
export interface SandboxCredentials {
  ca: string;
  apns: {
    host: string;
    port: number;
    key: string;
    keyId: string;
    teamId: string;
    certificate: string;
    certificateKey: string;
    bundle: string;
  };
  fcm: {
    host: string;
    port: number;
    serviceAccount: Record<'project_id' | 'client_email' | 'private_key' | 'token_uri', string>;
  };
}

/** The sandbox of a stack, by its control API. */
export interface Sandbox {
  credentials(): Promise<SandboxCredentials>;
  /** What was asked about a push, in order. */
  received(push: string): Promise<Received[]>;
  counts(): Promise<Counts>;
  /** The next requests for an address are answered by the steps in order, then as usual. */
  script(channel: string, address: string, answers: readonly Step[]): Promise<void>;
  /** The next requests for an address are all answered so. */
  scriptForGood(channel: string, address: string, answer: Step): Promise<void>;
  /** How one of the providers behaves from now on. */
  behave(channel: string, conduct: Record<string, unknown>): Promise<void>;
  /** All as usual again, nothing counted. */
  reset(): Promise<void>;
  subscribe(): Promise<{ endpoint: string; key: string; auth: string }>;
}

/** @param base of its control API, as dev.json has it */
export function openSandbox(base: string | undefined): Sandbox {
  if (base === undefined) throw new Error('the stack has no sandbox');

  async function call(method: string, path: string, body?: unknown): Promise<string> {
    const answer = await fetch(`${base}${path}`, {
      method,
      ...(body !== undefined && {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`sandbox: ${method} ${path}: ${answer.status} ${text}`);
    return text;
  }
  const ask = async <T>(path: string): Promise<T> => JSON.parse(await call('GET', path)) as T;
  const scriptOf = (channel: string, address: string) =>
    `/scripts/${channel}/${encodeURIComponent(address.split('/').at(-1) ?? '')}`;

  return {
    credentials: () => ask('/credentials'),
    async received(push) {
      return (await ask<{ received: Received[] }>(`/received?push=${push}&limit=100000`)).received;
    },
    counts: () => ask('/counts'),
    async script(channel, address, answers) {
      await call('PUT', scriptOf(channel, address), { answers, once: true });
    },
    async scriptForGood(channel, address, answer) {
      await call('PUT', scriptOf(channel, address), { answers: [answer] });
    },
    async behave(channel, conduct) {
      await call('PUT', `/servers/${channel}`, conduct);
    },
    async reset() {
      for (const what of ['scripts', 'servers', 'received']) await call('DELETE', `/${what}`);
    },
    async subscribe() {
      return JSON.parse(await call('POST', '/web-push/subscriptions', {}));
    },
  };
}
