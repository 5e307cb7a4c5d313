import { z } from 'zod';

/** Messages of a browser; others are ignored. `{}` is its ping. */
export const browserMessageSchema = z.discriminatedUnion('messageType', [
  z.looseObject({ messageType: z.literal('hello'), uaid: z.string().optional() }),
  z.looseObject({
    messageType: z.literal('register'),
    channelID: z.string().max(100),
    /** VAPID key of the page, base64url. */
    key: z.string().max(200).nullish(),
  }),
  z.looseObject({ messageType: z.literal('unregister'), channelID: z.string() }),
  z.looseObject({
    messageType: z.literal('ack'),
    updates: z.array(z.looseObject({ version: z.string(), code: z.int().optional() })),
  }),
  z.looseObject({ messageType: z.literal('nack'), version: z.string(), code: z.int().optional() }),
  z.looseObject({ messageType: z.literal('ping') }),
]);
export type BrowserMessage = z.infer<typeof browserMessageSchema>;
