import { z } from 'zod';

const successSchema = z.looseObject({ success: z.literal(true) }).meta({ id: 'Success' });

/** Response of endpoints that return nothing but their success. */
export const SUCCESS_RESPONSE = { schema: successSchema, example: { success: true } };
