import { commonEnv, type Listen, listenAt } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { z } from 'zod';
import { createSandbox } from './sandbox.ts';
import type { At } from './wire/tls-server.ts';

const address = listenAt.transform((at: Listen, context): At => {
  if ('host' in at) return at;
  context.addIssue({ code: 'custom', message: 'write host:port' });
  return z.NEVER;
});

const environment = z.object({
  ...commonEnv,
  /** The control API, the page that shows what arrives, and the browsers' WebSocket. */
  SANDBOX_LISTEN: address.default({ host: '127.0.0.1', port: 4004 }),
  /** What plays APNs (HTTP/2 over TLS). */
  SANDBOX_APNS_LISTEN: address.default({ host: '127.0.0.1', port: 4007 }),
  /** What plays FCM and Google's OAuth (HTTP/1.1 and HTTP/2 over TLS). */
  SANDBOX_FCM_LISTEN: address.default({ host: '127.0.0.1', port: 4008 }),
  /** What plays a Web Push service (HTTP/1.1 and HTTP/2 over TLS). */
  SANDBOX_WEB_PUSH_LISTEN: address.default({ host: '127.0.0.1', port: 4009 }),
  /** The folder of its keys and certificates, made at the first start and kept. */
  SANDBOX_FILES: z.string().default('.carillon/sandbox'),
  /** The name by which others reach it, when that is not the address of SANDBOX_LISTEN. */
  SANDBOX_PUBLIC_HOST: z.string().optional(),
});

await runService('sandbox', environment, async ({ log, release }, env) => {
  const sandbox = await createSandbox({
    control: env.SANDBOX_LISTEN,
    apns: env.SANDBOX_APNS_LISTEN,
    fcm: env.SANDBOX_FCM_LISTEN,
    webPush: env.SANDBOX_WEB_PUSH_LISTEN,
    files: env.SANDBOX_FILES,
    ...(env.SANDBOX_PUBLIC_HOST !== undefined && { publicHost: env.SANDBOX_PUBLIC_HOST }),
  });
  release('sandbox', sandbox.stop);
  log.info({ control: sandbox.control }, 'the sandbox listens');
});
