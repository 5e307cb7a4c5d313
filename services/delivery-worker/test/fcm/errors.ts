const FCM_ERROR = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';

/** An error as FCM answers it (google.rpc.Status with FcmError). */
export function fcmError(status: string, message: string, errorCode: string, ...details: object[]) {
  return {
    error: { status, message, details: [{ '@type': FCM_ERROR, errorCode }, ...details] },
  };
}

/** An error of Google's front. */
export function googleError(status: string, message = '') {
  return { error: { status, message } };
}
