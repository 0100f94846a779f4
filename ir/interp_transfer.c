// Transfers between the stages of a pipeline: values wait in a table until they are received. Stages may run on
// threads of their own.
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ir/base/vec.h"
#include "ir/interp_impl.h"

typedef struct message_s {
  int64_t from, to, device, tag;
  double *data;
  int64_t count;
} message_t;

// A stage that waits longer has nobody who will send.
enum { MAX_SECONDS = 20 };

struct ptc_mail_s {
  pthread_mutex_t lock;
  pthread_cond_t sent;
  PTC_VEC(message_t) waiting;  // in the order in which they were sent
};

ptc_mail_t *ptc_mail_create(void) {
  ptc_mail_t *mail = ptc_xmalloc(sizeof(*mail));
  *mail = (ptc_mail_t){.lock = PTHREAD_MUTEX_INITIALIZER, .sent = PTHREAD_COND_INITIALIZER};
  return mail;
}

void ptc_mail_destroy(ptc_mail_t *mail) {
  if (!mail) return;
  for (int64_t i = 0; i < mail->waiting.len; i++) free(mail->waiting.data[i].data);
  PTC_VEC_FREE(&mail->waiting);
  pthread_mutex_destroy(&mail->lock);
  pthread_cond_destroy(&mail->sent);
  free(mail);
}

int64_t ptc_mail_num_waiting(const ptc_mail_t *mail) { return mail->waiting.len; }

static ptc_status_t no_mail(const ptc_call_t *call, const char *what, int64_t stage) {
  return ptc_error(call->module->diag, call->op->loc, PTC_INVALID_INPUT, "interp-recv",
                   "%s of tag %" PRId64 " %s stage %" PRId64,
                   ptc_op_info(call->op->opcode)->mnemonic, ptc_op_int(call->op, "tag"), what,
                   stage);
}

ptc_status_t ptc_interp_send(const ptc_call_t *call) {
  int64_t stage;
  ptc_mail_t *mail = ptc_interp_mail(call->interp, &stage);
  if (!mail) return no_mail(call, "runs alone, not beside", ptc_op_int(call->op, "to"));
  const ptc_tensor_t *x = call->in[0];
  message_t message = {.from = stage,
                       .to = ptc_op_int(call->op, "to"),
                       .device = call->device,
                       .tag = ptc_op_int(call->op, "tag")};
  message.count = x->num_elements * x->num_instances;
  const size_t bytes = (size_t)message.count * sizeof(double);
  message.data = ptc_xmalloc(bytes + 1);
  memcpy(message.data, x->data, bytes);
  pthread_mutex_lock(&mail->lock);
  PTC_VEC_PUSH(&mail->waiting, message);
  pthread_cond_broadcast(&mail->sent);
  pthread_mutex_unlock(&mail->lock);
  return PTC_OK;
}

static bool is_for(const message_t *message, const ptc_call_t *call, int64_t stage) {
  return message->from == ptc_op_int(call->op, "from") && message->to == stage &&
         message->device == call->device && message->tag == ptc_op_int(call->op, "tag");
}

// Takes the first message for |call| out of the table; false if none comes in time.
static bool take_message(ptc_mail_t *mail, const ptc_call_t *call, int64_t stage,
                         message_t *out_message) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += MAX_SECONDS;
  pthread_mutex_lock(&mail->lock);
  bool found = false;
  for (int status = 0; !found && status != ETIMEDOUT;) {
    for (int64_t i = 0; i < mail->waiting.len && !found; i++) {
      message_t *at = &mail->waiting.data[i];
      if (!is_for(at, call, stage)) continue;
      *out_message = *at;
      memmove(at, at + 1, (size_t)(--mail->waiting.len - i) * sizeof(*at));
      found = true;
    }
    if (!found) status = pthread_cond_timedwait(&mail->sent, &mail->lock, &until);
  }
  pthread_mutex_unlock(&mail->lock);
  return found;
}

ptc_status_t ptc_interp_recv(const ptc_call_t *call) {
  int64_t stage;
  ptc_mail_t *mail = ptc_interp_mail(call->interp, &stage);
  const int64_t from = ptc_op_int(call->op, "from");
  if (!mail) return no_mail(call, "runs alone, not beside", from);
  message_t message;
  if (!take_message(mail, call, stage, &message)) return no_mail(call, "finds nothing from", from);
  ptc_tensor_t *out = call->out[0];
  const bool fits = message.count == out->num_elements * out->num_instances;
  if (fits) memcpy(out->data, message.data, (size_t)message.count * sizeof(double));
  free(message.data);
  return fits ? PTC_OK : no_mail(call, "gets another size from", from);
}
