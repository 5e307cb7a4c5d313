import { parseDeviceAuthKeys } from '@carillon/core/device-auth';
import {
  commonEnv,
  listenAddress,
  mongodbEnv,
  presenceEnv,
  redisEnv,
  stopDelayEnv,
} from '@carillon/runtime/env';
import { z } from 'zod';
import { parseOrigins } from './origins.ts';

const hostAndPort = listenAddress.transform((address, context) => {
  if ('host' in address) return address;
  context.addIssue({ code: 'custom', message: 'expected off, host:port or fd:N,N' });
  return z.NEVER;
});

/** Parses `fd:4,5,6`: descriptors of one listening socket. */
const fileDescriptors = z
  .string()
  .regex(/^fd:\d+(,\d+)*$/)
  .transform((text) => ({ fds: text.slice(3).split(',').map(Number) }));

/** `off`, `host:port`, or a listening socket of the parent process. */
export const listenSetting = z.union([z.literal('off'), fileDescriptors, hostAndPort]);

/** Settings of the process, read once by main.ts. */
export const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  ...stopDelayEnv,
  /** Address of MQTT over TCP, or `off`. */
  MQTT_LISTEN: listenSetting.default({ host: '127.0.0.1', port: 1883 }),
  /** Address of MQTT over TLS, or `off`. */
  MQTTS_LISTEN: listenSetting.default('off'),
  /** Path of the certificate with its chain, PEM, for MQTTS_LISTEN; a changed file is reloaded. */
  TLS_CERT_FILE: z.string().optional(),
  /** Path of its private key, PEM; a changed file is reloaded. */
  TLS_KEY_FILE: z.string().optional(),
  /** Address of MQTT over WebSocket, or `off`. */
  MQTT_WS_LISTEN: listenSetting.default('off'),
  /** Origins of web pages that may connect over WebSocket; `*`: all. */
  MQTT_WS_ORIGINS: z
    .string()
    .default('')
    .transform((text, context) => {
      try {
        return parseOrigins(text);
      } catch (error) {
        context.addIssue({ code: 'custom', message: (error as Error).message });
        return z.NEVER;
      }
    }),
  /** `on`: the load balancer sends the PROXY protocol header, version 2. */
  PROXY_PROTOCOL: z.enum(['on', 'off']).default('off'),
  /** Most connections of one process; its limit of open files must be 5 % and 1,100 higher. */
  MAX_CONNECTIONS: z.coerce.number().int().min(1).default(18_000),
  /** Bytes buffered for slow devices in all sockets together; above it each app is limited to its share. */
  MAX_WAITING_BYTES: z.coerce.number().int().min(1_048_576).default(67_108_864),
  /** Keys that sign device credentials, newest first: `2:<hex>,1:<hex>`. */
  DEVICE_AUTH_KEYS: z.string().transform((text, context) => {
    try {
      return parseDeviceAuthKeys(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
      return z.NEVER;
    }
  }),
  /** `off`: no limits by client address, for load tests from one machine. */
  ADDRESS_LIMITS: z.enum(['on', 'off']).default('on'),
  /** Seconds over which connections are closed at a stop, which takes up to 20 s more. */
  GATEWAY_DRAIN_SECONDS: z.coerce.number().min(0.1).max(600).default(12),
});
