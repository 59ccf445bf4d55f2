/**
 * Lead to the login if there is no session, or none any more; an HTTP API's authoriser says 403.
 * The view is kept, which is what follows #.
 */
export function checkSession(response: Response): void {
  if (response.status !== 401 && response.status !== 403) return;
  location.assign(`/login${location.hash}`);
}
