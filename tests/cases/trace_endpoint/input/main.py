from fastapi import APIRouter, Depends, FastAPI

router = APIRouter(prefix="/users")

def session(): ...

@router.get("/{user_id}")
async def get_user(user_id: int, db=Depends(session)):
    return find(user_id)

def find(key): ...

app = FastAPI()
app.include_router(router, prefix="/api")
