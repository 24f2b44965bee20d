"""Reader of logged conversations: whatever form they have, messages in OpenAI's form."""

from fctncalling.conversations.conversation import Unreadable, exchanges
from fctncalling.conversations.conversation_log import ConversationLog, holds_conversations
from fctncalling.conversations.logged_tasks import logged_tasks

__all__ = ["ConversationLog", "Unreadable", "exchanges", "holds_conversations", "logged_tasks"]
