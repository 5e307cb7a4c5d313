import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import { z } from 'zod';

/** Drops every subscription of a device when it stands alone. */
export const EVERY_TOPIC = '*';

const token = z.string().meta({ description: 'Device token.' });
const name = z.string().regex(TOPIC_NAME, 'a topic name must match [a-zA-Z0-9-_.]{1,100}');
const names = z
  .array(name)
  .min(1)
  .max(LIMITS.topicsPerSubscribe)
  .meta({ description: 'Names of topics, case-sensitive.' });
const auth = z
  .string()
  .optional()
  .meta({ description: "The device's auth key, in place of an API key." });

/** Specification 4.6. */
export const subscribeRequest = z.object({ token, topics: names }).meta({ id: 'Subscribe' });

/** Specification 4.7; `["*"]` stands for all topics of the device. */
export const unsubscribeRequest = z
  .object({
    token,
    topics: z.union([z.tuple([z.literal(EVERY_TOPIC)]), names], 'must be an array of topic names'),
  })
  .meta({ id: 'Unsubscribe' });

/** What a device sends besides, to prove itself. */
export const subscribeOwnRequest = subscribeRequest.extend({ auth }).meta({ id: 'SubscribeOwn' });
export const unsubscribeOwnRequest = unsubscribeRequest
  .extend({ auth })
  .meta({ id: 'UnsubscribeOwn' });

/** Specification 4.8, the answer. */
export const topicsBody = z
  .looseObject({
    topics: z.array(z.looseObject({ name: z.string(), subscribers: z.int().min(1) })),
  })
  .meta({ id: 'Topics' });

/** Specification 4.9, the answer. */
export const subscribersBody = z
  .looseObject({
    subscribers: z.array(z.string()).max(LIMITS.subscribersPerPage).meta({
      description: 'Device tokens.',
    }),
    pagination: z
      .string()
      .optional()
      .meta({ description: 'Relative link to the next page; absent on the last one.' }),
  })
  .meta({ id: 'Subscribers' });
