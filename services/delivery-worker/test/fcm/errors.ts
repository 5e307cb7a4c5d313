const FCM_ERROR = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';

/** Creates an error response of FCM (google.rpc.Status with FcmError). */
export function fcmError(status: string, message: string, errorCode: string, ...details: object[]) {
  return {
    error: { status, message, details: [{ '@type': FCM_ERROR, errorCode }, ...details] },
  };
}

/** Creates an error response of Google's front end. */
export function googleError(status: string, message = '') {
  return { error: { status, message } };
}
