import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import { z } from 'zod';

/** Item that stands for all subscriptions of a device if it is the only one. */
export const ALL_TOPICS = '*';

const token = z.string().meta({ description: 'Token of the device.' });
const name = z.string().regex(TOPIC_NAME, 'must match [a-zA-Z0-9-_.]{1,100}');
const names = z
  .array(name)
  .min(1)
  .max(LIMITS.topicsPerSubscribe)
  .meta({ description: 'Names of the topics. Case-sensitive.' });
const auth = z
  .string()
  .optional()
  .meta({ description: 'Auth key of the device, instead of an API key.' });

/** Request body of POST /topics/subscribe (specification 4.6). */
export const subscribeRequest = z.object({ token, topics: names }).meta({ id: 'Subscribe' });

/** An array with a refinement instead of a union with a tuple: client generators fail on tuples. */
const namesOrWildcard = z
  .array(z.string().regex(/^(\*|[a-zA-Z0-9\-_.]{1,100})$/, 'must match [a-zA-Z0-9-_.]{1,100}'))
  .min(1)
  .max(LIMITS.topicsPerSubscribe)
  .refine(
    (topics) => topics.length === 1 || !topics.includes(ALL_TOPICS),
    'must be ["*"] alone or names of topics',
  )
  .meta({
    description: 'Names of the topics, or `["*"]` for all topics of the device. Case-sensitive.',
  });

/** Request body of POST /topics/unsubscribe (specification 4.7); `["*"]` stands for all topics of the device. */
export const unsubscribeRequest = z
  .object({ token, topics: namesOrWildcard })
  .meta({ id: 'Unsubscribe' });

/** Request bodies of a device, which adds its `auth`. */
export const subscribeAsDeviceRequest = subscribeRequest
  .extend({ auth })
  .meta({ id: 'SubscribeOwn' });
export const unsubscribeAsDeviceRequest = unsubscribeRequest
  .extend({ auth })
  .meta({ id: 'UnsubscribeOwn' });

/** Response of GET /topics (specification 4.8). */
export const topicsResponse = z
  .looseObject({
    topics: z.array(z.looseObject({ name: z.string(), subscribers: z.int().min(1) })),
  })
  .meta({ id: 'Topics' });

/** Response of GET /topics/<topic> (specification 4.9). */
export const subscribersResponse = z
  .looseObject({
    subscribers: z.array(z.string()).max(LIMITS.subscribersPerPage).meta({
      description: 'Tokens of the subscribed devices.',
    }),
    pagination: z
      .string()
      .optional()
      .meta({ description: 'Relative link to the next page. Not set on the last page.' }),
  })
  .meta({ id: 'Subscribers' });
