import { commonEnv, type ListenAddress, listenAddress } from '@carillon/runtime/env';
import { z } from 'zod';
import type { TcpAddress } from './transport/tls-server.ts';

const listenAddressSchema = listenAddress.transform(
  (listen: ListenAddress, context): TcpAddress => {
    if ('host' in listen) return listen;
    context.addIssue({ code: 'custom', message: 'write host:port' });
    return z.NEVER;
  },
);

/** Settings of the process, read once by main.ts. */
export const environment = z.object({
  ...commonEnv,
  /** Address of the control API, the live page and the browsers' WebSocket. */
  SANDBOX_LISTEN: listenAddressSchema.default({ host: '127.0.0.1', port: 4004 }),
  /** Address of the simulated APNs (HTTP/2 over TLS). */
  SANDBOX_APNS_LISTEN: listenAddressSchema.default({ host: '127.0.0.1', port: 4007 }),
  /** Address of the simulated FCM and Google OAuth (HTTP/1.1 and HTTP/2 over TLS). */
  SANDBOX_FCM_LISTEN: listenAddressSchema.default({ host: '127.0.0.1', port: 4008 }),
  /** Address of the simulated Web Push service (HTTP/1.1 and HTTP/2 over TLS). */
  SANDBOX_WEB_PUSH_LISTEN: listenAddressSchema.default({ host: '127.0.0.1', port: 4009 }),
  /** Folder of its keys and certificates, created at the first start. */
  SANDBOX_FILES: z.string().default('.carillon/sandbox'),
  /** Host name that clients use, if it differs from the address of SANDBOX_LISTEN. */
  SANDBOX_PUBLIC_HOST: z.string().optional(),
  /** Path of the stack's `dev.json`, from which the demo page takes the API and the app. */
  SANDBOX_STACK_FILE: z.string().optional(),
});
