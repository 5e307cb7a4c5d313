import { commonEnv, mongodbEnv, presenceEnv, redisEnv } from '@carillon/runtime/env';
import { z } from 'zod';

/** Settings of the process, read once by main.ts. */
export const environment = z.object({ ...commonEnv, ...mongodbEnv, ...redisEnv, ...presenceEnv });
